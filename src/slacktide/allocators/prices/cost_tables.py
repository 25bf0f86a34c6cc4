"""Tables of what a job will still cost, by kind: with and without a deadline, on spot, on demand and idle.

The market is modelled as one job of a fleet sees it: a job that waits is offered spot at some rate, one on
spot loses it at some rate; both are learned, so that they include contention. A job without a deadline counts
`hour_usd` for every hour until it is done, on top of the money. With w work left, on spot of width k:

    s(k) V_S'(w, k) = hour_usd + e k + loss (V_D(w) - V_S(w, k))
    V_D(w) = min( min_k V_O(w, k) + R (hour_usd + q k),
                  hour_usd / offer + min_k V_S(w, k) + R (hour_usd + e k) )

and V_O likewise, with offers of spot instead of losses. With a deadline only money counts, and the recursion
goes backward from it in steps of time; a pause at the start is work that is done at that width once more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.job_tables import Kinds
from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.compiled import compilable, compiled

CELLS = 80  # the cells of work in a row
LEAST_WORK_GPU_HOURS = 1e-6
HORIZON_HOURS = 24.0
"""How far before a deadline the tables reach; a later one is scaled to this time at the same pace."""
LEAST_STEP_HOURS = 1.0 / 6.0  # time steps before a deadline are not finer than this
LATE_USD = 30.0
"""Work that is left at a deadline counts this many times an on-demand GPU-hour: the guard prevents it."""
NEVER = 1e15  # the cost of a way that is not open: more than any other
ROUNDS = 4  # the two values of one amount of work depend on each other; after this many rounds they agree


class MarketRates(NamedTuple):
    """What a kind of job knows of the market: rates per hour and USD per GPU-hour."""

    offer_rate: float  # at which a job that waits is offered spot
    deadline_offer_rate: float  # the same for jobs with a deadline
    loss_rate: float  # at which a job on spot loses it
    spot_usd: float  # price and rent
    on_demand_usd: float
    hour_usd: float  # what an hour of waiting is worth


class CostTables(NamedTuple):
    """Costs to come, in USD, a row for each kind and size of job; `widths` says what the columns are."""

    widths: Ints
    rate: Floats
    """[row, width]: mean progress per hour in the first pool that it may be in; 0 where not allowed."""
    work_gpu_hours: Floats  # [row, cell]: the work left that columns of jobs without a deadline are for
    spot_usd: Floats  # [row, width, cell]: on spot
    on_demand_usd: Floats
    cell_gpu_hours: Floats  # [row]: the work of a cell before a deadline
    step_hours: float
    due_spot_usd: Floats
    """[row, step, width, cell]: with this many steps to the deadline, on spot, which is kept for a step."""
    due_on_demand_usd: Floats
    due_idle_usd: Floats  # [row, step, cell]


class TableBook:
    """The tables of all kinds and sizes of jobs that were needed so far, for one state of the market.

    A row is for jobs of one kind whose work is between two powers of two, so what it says does not depend on
    which other jobs there are.
    """

    def __init__(self, market: MarketRates, slot_hours: float) -> None:
        self.market = market
        self._slot_hours = slot_hours
        self._kinds: Kinds | None = None
        self._rates: Floats = np.zeros((0, 0))
        self._rows: dict[tuple[bytes, int, bool], int] = {}
        self._keys: list[bytes] = []
        self.tables = self._room(np.zeros(0, dtype=np.int64), 0)

    def rows(self, kinds: Kinds, kind: Ints, work: Floats, due: Bools) -> Ints:
        """Return the row of each job; rows that do not exist yet are made."""
        if kinds is not self._kinds:
            self._take(kinds)
        sizes = np.ceil(np.log2(np.maximum(work, LEAST_WORK_GPU_HOURS))).astype(np.int64)
        jobs = zip(kind.tolist(), sizes.tolist(), due.tolist(), strict=True)
        return np.array([self._row(*job) for job in jobs], dtype=np.int64)

    def _take(self, kinds: Kinds) -> None:
        """Change to other kinds; rows of kinds that did not change stay."""
        widths = np.flatnonzero((kinds.fit == np.arange(kinds.fit.shape[2])).any(axis=(0, 1)))
        widths = widths[widths > 0]
        if not np.array_equal(widths, self.tables.widths):
            self._rows.clear()
            self.tables = self._room(widths, 0)
        self._kinds, self._rates = kinds, mean_rates(kinds, widths)
        restarts = kinds.restart_hours.tolist()
        self._keys = [
            rate.tobytes() + repr(one).encode() for rate, one in zip(self._rates, restarts, strict=True)
        ]

    def _row(self, kind: int, size: int, due: bool) -> int:
        key = self._keys[kind], size, due
        if key not in self._rows:
            self._rows[key] = self._made(kind, size, due)
        return self._rows[key]

    def _made(self, kind: int, size: int, due: bool) -> int:
        """Fill a new row."""
        assert self._kinds is not None
        row = len(self._rows)
        if row == len(self.tables.rate):
            self._grow()
        tables, rate, restart = self.tables, self._rates[kind], float(self._kinds.restart_hours[kind])
        most = 2.0**size
        tables.rate[row] = rate
        tables.work_gpu_hours[row] = most * (np.arange(CELLS) / (CELLS - 1.0)) ** 2
        tables.cell_gpu_hours[row] = (most + rate.max() * restart) / (CELLS - 1)
        if due:
            compiled(fill_due)(
                rate, tables.widths, restart, self.market, tables.step_hours,
                float(tables.cell_gpu_hours[row]), tables.due_spot_usd[row], tables.due_on_demand_usd[row],
                tables.due_idle_usd[row],
            )  # fmt: skip
        # A job that misses a soft deadline continues as one without a deadline.
        compiled(fill_open)(
            rate, tables.widths, restart, self.market, tables.work_gpu_hours[row], tables.spot_usd[row],
            tables.on_demand_usd[row],
        )  # fmt: skip
        return row

    def _grow(self) -> None:
        old, room = self.tables, self._room(self.tables.widths, max(32, 2 * len(self.tables.rate)))
        for name in CostTables._fields:
            if name not in ("widths", "step_hours"):
                getattr(room, name)[: len(old.rate)] = getattr(old, name)
        self.tables = room

    def _room(self, widths: Ints, rows: int) -> CostTables:
        step = self._slot_hours * math.ceil(LEAST_STEP_HOURS / self._slot_hours - 1e-9)
        steps = max(1, math.ceil(HORIZON_HOURS / step)) + 1
        shape, due = (rows, len(widths), CELLS), (rows, steps, len(widths), CELLS)
        return CostTables(
            widths=widths,
            rate=np.zeros(shape[:2]),
            work_gpu_hours=np.ones((rows, CELLS)),
            spot_usd=np.zeros(shape),
            on_demand_usd=np.zeros(shape),
            cell_gpu_hours=np.ones(rows),
            step_hours=step,
            due_spot_usd=np.zeros(due),
            due_on_demand_usd=np.zeros(due),
            due_idle_usd=np.zeros((rows, steps, CELLS)),
        )


def mean_rates(kinds: Kinds, widths: Ints) -> Floats:
    """Return the mean progress per hour of each kind on each width over all its work; 0 if not allowed."""
    first = np.argmax(kinds.fastest > 0, axis=1)
    rate = np.zeros((len(first), len(widths)))
    for kind, pool in enumerate(first.tolist()):
        phases = int(kinds.phases[kind])
        share = np.diff(kinds.phase_share[kind, :phases], prepend=0.0)
        by_phase = kinds.rate[kind, pool, :phases][:, widths]
        allowed = by_phase.min(axis=0) > 0
        rate[kind, allowed] = 1.0 / (share[:, None] / by_phase[:, allowed]).sum(axis=0)
    return rate


@compilable
def fill_open(
    rate: Floats,
    widths: Ints,
    restart: float,
    market: MarketRates,
    work: Floats,
    on_spot: Floats,
    on_demand: Floats,
) -> None:
    """Fill the costs of a job without a deadline, from no work left upwards."""
    hour, offer, loss = market.hour_usd, market.offer_rate, market.loss_rate
    idle = 0.0
    for width in range(len(widths)):
        on_spot[width, 0] = 0.0 if rate[width] > 0.0 else NEVER
        on_demand[width, 0] = on_spot[width, 0]
    for cell in range(1, len(work)):
        more = work[cell] - work[cell - 1]
        # A loss of spot leads to idling, and idling ends on spot: each value needs the other.
        for _ in range(ROUNDS):
            start_spot = NEVER
            for width in range(len(widths)):
                if rate[width] <= 0.0:
                    on_spot[width, cell] = NEVER
                    continue
                paid = hour + market.spot_usd * widths[width]
                speed = rate[width] / more
                on_spot[width, cell] = (on_spot[width, cell - 1] * speed + paid + loss * idle) / (
                    speed + loss
                )
                start_spot = min(start_spot, on_spot[width, cell] + restart * paid)
            start_on_demand = NEVER
            for width in range(len(widths)):
                if rate[width] <= 0.0:
                    on_demand[width, cell] = NEVER
                    continue
                paid = hour + market.on_demand_usd * widths[width]
                speed = rate[width] / more
                stays = on_demand[width, cell - 1] + paid / speed
                leaves = (on_demand[width, cell - 1] * speed + paid + offer * start_spot) / (speed + offer)
                on_demand[width, cell] = min(stays, leaves)
                start_on_demand = min(start_on_demand, on_demand[width, cell] + restart * paid)
            idle = min(start_on_demand, hour / offer + start_spot)


@compilable
def fill_due(
    rate: Floats,
    widths: Ints,
    restart: float,
    market: MarketRates,
    step: float,
    cell: float,
    on_spot: Floats,
    on_demand: Floats,
    idle: Floats,
) -> None:
    """Fill the costs of a job with a deadline, backward from it; what is held is kept for a step.

    With n steps left and w work, V_h(n, w) the cost of holding h for a step and U_h(n, w) that of holding it
    and being free to change:

        V_h(n, w) = paid in a step + E U_h(n - 1, w left)      where spot is lost with probability `lost`
        V_idle(n, w) = min(V_idle(n - 1, w), start on demand); spot, too, with probability `offered`
    """
    count, cells = len(widths), idle.shape[1]
    offered = 1.0 - math.exp(-market.deadline_offer_rate * step)
    lost = 1.0 - math.exp(-market.loss_rate * step)
    # U of the recursion, for spot and for on demand: the cost of holding a width and being free to change.
    spot_now, demand_now = np.zeros((count, cells)), np.zeros((count, cells))
    spot_next, demand_next = np.zeros((count, cells)), np.zeros((count, cells))
    _fill_deadline(LATE_USD * market.on_demand_usd, cell, on_spot, on_demand, idle, spot_now, demand_now)
    for steps in range(1, idle.shape[0]):
        for at in range(cells):
            start_spot, start_on_demand = NEVER, NEVER
            for width in range(count):
                if rate[width] <= 0.0:
                    on_spot[steps, width, at] = NEVER
                    on_demand[steps, width, at] = NEVER
                    spot_next[width, at] = NEVER
                    demand_next[width, at] = NEVER
                    continue
                # A job that already holds the width continues at once; another one pauses first.
                for pause in (restart, 0.0):
                    hours, left = after_step(at * cell, rate[width], pause, step)
                    by_spot = market.spot_usd * widths[width] * hours
                    by_demand = market.on_demand_usd * widths[width] * hours
                    if left > 0.0:
                        kept = between(cell, spot_now[width], left)
                        by_spot += (1.0 - lost) * kept + lost * between(cell, idle[steps - 1], left)
                        by_demand += between(cell, demand_now[width], left)
                    if pause > 0.0:
                        start_spot = min(start_spot, by_spot)
                        start_on_demand = min(start_on_demand, by_demand)
                    else:
                        on_spot[steps, width, at] = by_spot
                        on_demand[steps, width, at] = by_demand
                        if restart == 0.0:
                            start_spot = min(start_spot, by_spot)
                            start_on_demand = min(start_on_demand, by_demand)
            without = min(idle[steps - 1, at], start_on_demand)
            idle[steps, at] = offered * min(without, start_spot) + (1.0 - offered) * without
            for width in range(count):
                if rate[width] > 0.0:
                    any_way = min(without, start_spot)
                    spot_next[width, at] = min(on_spot[steps, width, at], any_way)
                    stays = on_demand[steps, width, at]
                    demand_next[width, at] = offered * min(stays, any_way) + (1.0 - offered) * min(
                        stays, without
                    )
        spot_now[:, :] = spot_next
        demand_now[:, :] = demand_next


@compilable
def _fill_deadline(
    late_usd: float,
    cell: float,
    on_spot: Floats,
    on_demand: Floats,
    idle: Floats,
    spot_now: Floats,
    demand_now: Floats,
) -> None:
    """Fill the costs of work that is left at the deadline itself: the same whatever is held."""
    for at in range(idle.shape[1]):
        late = late_usd * at * cell
        idle[0, at] = late
        on_spot[0, :, at] = late
        on_demand[0, :, at] = late
        spot_now[:, at] = late
        demand_now[:, at] = late


@compilable
def after_step(work: float, rate: float, pause: float, step: float) -> tuple[float, float]:
    """Return for how long GPUs are held in a step and the work that is left after it."""
    left = work - rate * (step - pause)
    if left <= 0.0:
        return min(step, pause + work / rate), 0.0
    return step, left


@compilable
def between(cell: float, values: Floats, work: float) -> float:
    """Return a value between two cells of one size, or beyond the last by the same slope."""
    if work <= 0.0:
        return float(values[0])
    at = work / cell
    low = min(int(at), len(values) - 2)
    return float(values[low] + (values[low + 1] - values[low]) * (at - low))


@compilable
def at_work(cells: Floats, values: Floats, work: float) -> float:
    """Return a value between two cells that grow with the work, or beyond the last by the same slope."""
    last = len(cells) - 1
    # Cells grow with the square of their number.
    low = min(int(math.sqrt(max(work, 0.0) / cells[last]) * last), last - 1)
    share = (work - cells[low]) / (cells[low + 1] - cells[low])
    return float(values[low] + (values[low + 1] - values[low]) * share)
