"""What a job will still cost, by kind: with and without a deadline, on spot, on demand and with nothing.

The market is what it looks like to one job of a fleet: a job that waits is offered spot at some rate, one on
spot loses it at some rate; both rates are learned, so that contention is in them. A job without a deadline
counts `hour_usd` for every hour until it is done, beside the money. With w work left, on spot of width k:

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

from slacktide.arrays import Floats, Ints
from slacktide.compiled import compilable, compiled
from slacktide.site.kinds import Kinds

CELLS = 80
"""How finely work is looked at."""
HORIZON_HOURS = 24.0
"""How far ahead a deadline is looked at; a later one is taken as the same pace over this time."""
LEAST_STEP_HOURS = 1.0 / 6.0
"""Time steps before a deadline are not finer than this."""
LATE_USD = 30.0
"""Work that is left at a deadline counts this many times an on-demand GPU-hour: the guard prevents it."""
NEVER = 1e15
"""Costs more than anything: a way that is not open."""
ROUNDS = 4
"""The two values of one amount of work depend on each other; after this many rounds they agree."""


class Market(NamedTuple):
    """What a kind of job is told of the market: rates per hour and USD per GPU-hour."""

    offer_rate: float
    """At which a job that waits is offered spot."""
    deadline_offer_rate: float
    """The same for jobs with a deadline."""
    loss_rate: float
    """At which a job on spot loses it."""
    spot_usd: float
    """With what it is worth above its price."""
    on_demand_usd: float
    hour_usd: float
    """What an hour of waiting is worth."""


class CostTables(NamedTuple):
    """Costs to come, in USD: [kind, ...]; `widths` says which widths the columns are."""

    widths: Ints
    rate: Floats
    """[kind, width]: mean progress per hour in the first pool that it may be in; 0 where not allowed."""
    work_gpu_hours: Floats
    """[kind, cell]: the work left that columns of jobs without a deadline are for."""
    spot_usd: Floats
    """[kind, width, cell]: on spot."""
    on_demand_usd: Floats
    cell_gpu_hours: Floats
    """[kind]: the work of a cell before a deadline."""
    step_hours: float
    due_spot_usd: Floats
    """[kind, step, width, cell]: with this many steps to the deadline, on spot, which is kept for a step."""
    due_on_demand_usd: Floats
    due_idle_usd: Floats
    """[kind, step, cell]"""


def cost_tables(kinds: Kinds, market: Market, most_work: Floats, due: Ints, slot_hours: float) -> CostTables:
    """Work out what jobs of each kind will cost; `due` says of which kinds there are jobs with deadlines.

    `most_work` is the most work of a job of each kind: more is extrapolated.
    """
    widths = np.flatnonzero((kinds.fit == np.arange(kinds.fit.shape[2])).any(axis=(0, 1)))
    widths = widths[widths > 0]
    rate = mean_rates(kinds, widths)
    count, step = len(rate), slot_hours * math.ceil(LEAST_STEP_HOURS / slot_hours - 1e-9)
    steps = max(1, math.ceil(HORIZON_HOURS / step))
    most = np.maximum(most_work, 1e-3)
    work = most[:, None] * (np.arange(CELLS) / (CELLS - 1.0)) ** 2
    cell = (most + rate.max(axis=1) * kinds.restart_hours) / (CELLS - 1)
    shape = (count, len(widths), CELLS)
    spot, on_demand = np.zeros(shape), np.zeros(shape)
    due_shape = (count, steps + 1, len(widths), CELLS) if len(due) else (count, 1, len(widths), CELLS)
    due_spot, due_on_demand = np.zeros(due_shape), np.zeros(due_shape)
    due_idle = np.zeros((count, due_shape[1], CELLS))
    for kind in range(count):
        restart = float(kinds.restart_hours[kind])
        compiled(fill_open)(rate[kind], widths, restart, market, work[kind], spot[kind], on_demand[kind])
    for kind in due.tolist():
        restart = float(kinds.restart_hours[kind])
        compiled(fill_due)(
            rate[kind], widths, restart, market, step, float(cell[kind]), due_spot[kind],
            due_on_demand[kind], due_idle[kind],
        )  # fmt: skip
    return CostTables(widths, rate, work, spot, on_demand, cell, step, due_spot, due_on_demand, due_idle)


def mean_rates(kinds: Kinds, widths: Ints) -> Floats:
    """Return the mean progress per hour of each kind on each width over all its work, 0: not allowed."""
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
    market: Market,
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
    market: Market,
    step: float,
    cell: float,
    on_spot: Floats,
    on_demand: Floats,
    idle: Floats,
) -> None:
    """Fill the costs of a job with a deadline, backward from it; what is held is kept for a step."""
    count, cells = len(widths), idle.shape[1]
    offered = 1.0 - math.exp(-market.deadline_offer_rate * step)
    lost = 1.0 - math.exp(-market.loss_rate * step)
    # The value of holding something, free to change it: of spot, and of on demand.
    spot_now, demand_now = np.zeros((count, cells)), np.zeros((count, cells))
    spot_next, demand_next = np.zeros((count, cells)), np.zeros((count, cells))
    for at in range(cells):
        late = LATE_USD * market.on_demand_usd * at * cell
        idle[0, at] = late
        on_spot[0, :, at] = late
        on_demand[0, :, at] = late
        spot_now[:, at] = late
        demand_now[:, at] = late
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
