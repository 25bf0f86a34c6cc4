"""The clairvoyant of a wide job: searches the price of work, tries plans, bounds what a better one gains."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compiled
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.solvers.clairvoyant.bound import Late, bound, late_work
from slacktide.solvers.clairvoyant.frame import (
    NEVER,
    Future,
    Wide,
    check_pauses,
    empty_future,
    look_ahead,
    replay,
    without_losses,
)
from slacktide.solvers.clairvoyant.holdings import (
    HoldingPairs,
    all_holdings,
    count_all,
    holdings_within,
    levels_of,
)
from slacktide.solvers.clairvoyant.lagrangian import (
    SweepBuffers,
    Targets,
    better_plan,
    follow_targets,
    sweep_priced,
)
from slacktide.solvers.slotted import Slotted, list_pauses

BENDS = (0.0, 0.003, 0.03, 0.1)
"""How much more concave the speedup is made when plans are searched for: with a straight one either all GPUs
pay at a price or none, and no price leads to a plan in between."""
CLOSE = 3e-4  # prices closer than this share are close enough
TRIES = 60  # the most prices that are tried for one bend
SWITCHES = 96  # slots at which plans may go from the targets of one price to those of another
STATE_NS, SHRINKING_NS = 400, 1000
"""About how many nanoseconds of CPU a state (slot, holding and pause) of a wide job takes, over all sweeps;
SHRINKING_NS if a shrink pauses less than a restart, so that parts of holdings are compared as well."""
BOUNDED_STATES = 40_000_000
"""Where plans are made of some holdings only, all are swept for the bound if they have no more states."""
MOST_STATES = 12_000_000  # the most states whose targets are kept, 4 bytes each, three times over


class BestPlan(NamedTuple):
    """The best plan found from one start, and what a better one could gain at the most."""

    spot_gpus: Ints
    on_demand_gpus: Ints
    row: Floats  # of a yardstick's table
    spare_usd: float


class WideBuffers(NamedTuple):
    """Arrays that all starts share."""

    future: Future
    room: SweepBuffers
    targets: tuple[Targets, Targets, Targets]
    plan: Ints
    best_plan: Ints
    spot: Ints
    on_demand: Ints


class Bracket(NamedTuple):
    """The targets of two close prices, for too little and enough work; the least bound; the last price."""

    low: Targets
    high: Targets
    most_usd: float
    price_usd: float


class WideSolver:
    """Solves one job on one pool, start by start."""

    def __init__(self, job: Job, pool: Pool, effort_s: float) -> None:
        """Prepare a job so that a start takes about this long at the most, in seconds of CPU."""
        self._job, self._pool = job, pool
        terms = without_losses(job, pool.slot_hours)
        check_pauses(terms)
        offered = int(pool.spot_gpus.max())
        states = terms.deadline_slots * len(list_pauses(terms).left_hours)
        state_ns = SHRINKING_NS if terms.shrink_hours < terms.restart_hours else STATE_NS
        fitting = int(min(MOST_STATES, effort_s * 1e9 / state_ns) // states)
        self.wide = _wide(job, terms, holdings_within(job, terms.fastest, offered, fitting))
        self._memory = _empty_memory(self.wide)
        self._whole: Wide | None = None
        if len(self.wide.spot) < count_all(job, offered) <= BOUNDED_STATES // states:
            self._whole = _wide(job, terms, all_holdings(job, offered))

    @property
    def complete(self) -> bool:
        """Whether all holdings of the job were tried."""
        return len(self.wide.spot) == count_all(self._job, int(self._pool.spot_gpus.max()))

    def solve(self, start: int) -> BestPlan:
        """Find a plan from one start, and bound what any other could gain."""
        pool, wide, memory = self._pool, self.wide, self._memory
        compiled(look_ahead)(
            wide, memory.future, start, pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour,
            pool.spot_gpus,
        )  # fmt: skip
        free = bound(self._job, wide, memory.future)
        memory.best_plan[:] = -1
        best, most, price, row = NEVER, free.utility_usd, free.price_usd, np.empty(7)
        for bend in BENDS:
            found = _bracket(wide, _bent(wide, bend), memory, price)
            best, price = _plan(wide, memory, found, row, best), found.price_usd
            if bend == 0.0:
                most = min(most, self._bound(found))
        compiled(replay)(wide, memory.future, memory.best_plan, memory.spot, memory.on_demand, row)
        spare = max(0.0, most - best) if best > 0.5 * NEVER else 0.0
        return BestPlan(memory.spot.copy(), memory.on_demand.copy(), row, spare)

    def _bound(self, found: Bracket) -> float:
        """Return the bound over all holdings; infinite if sweeping them would take too long."""
        if self.complete:
            return found.most_usd
        if self._whole is None:
            return math.inf
        whole, future = self._whole, self._memory.future
        targets = np.zeros((1, len(whole.pauses.left_hours), len(whole.spot)), dtype=np.int32)
        late = late_work(whole, future)
        return _above(whole, future, _empty_room(whole), late, found.price_usd, targets)


def _wide(job: Job, terms: Slotted, holdings: HoldingPairs) -> Wide:
    return Wide(
        terms=terms,
        hard=job.hard,
        value_usd=float(job.value_usd),
        worthless_after_hours=float(job.worthless_after_hours or job.deadline_hours),
        spot=holdings.spot,
        on_demand=holdings.on_demand,
        levels=levels_of(holdings, job.max_gpus),
        pauses=list_pauses(terms),
    )


def _empty_memory(wide: Wide) -> WideBuffers:
    future = empty_future(wide)
    slots = len(future.spot_gpus)
    shape = wide.terms.deadline_slots, len(wide.pauses.left_hours), len(wide.spot)
    low, high, spare = (np.zeros(shape, dtype=np.int32) for _ in range(3))
    plan, best_plan, spot, on_demand = (np.zeros(slots, dtype=np.int64) for _ in range(4))
    return WideBuffers(future, _empty_room(wide), (low, high, spare), plan, best_plan, spot, on_demand)


def _empty_room(wide: Wide) -> SweepBuffers:
    state = len(wide.pauses.left_hours), len(wide.spot)
    levels = len(wide.levels.spot), len(wide.levels.on_demand)
    anew, kept, fewer = (np.empty(state[1]) for _ in range(3))
    best, which = np.empty(levels), np.empty(levels, dtype=np.int64)
    return SweepBuffers(np.empty(state), np.empty(state), anew, kept, fewer, best, which)


def _bent(wide: Wide, bend: float) -> Wide:
    """Return the job with a slightly more concave speedup, so that no two widths pay equally."""
    rate = wide.terms.rate
    bent = rate * (1.0 - bend * np.arange(len(rate)) / len(rate))
    return wide._replace(terms=wide.terms._replace(rate=bent))


def _bracket(wide: Wide, bent: Wide, memory: WideBuffers, price: float) -> Bracket:
    """Search for the price at which the work is just done, from a first guess, by bisection."""
    late, work = late_work(wide, memory.future), wide.terms.work_gpu_hours
    low, high, free = memory.targets
    lower, upper, most = 0.0, math.inf, math.inf
    for _ in range(TRIES):
        most = min(most, _above(bent, memory.future, memory.room, late, price, free))
        done = compiled(follow_targets)(wide, memory.future, free, free, 0, memory.plan)[0]
        if done + late.head(price)[1] >= work * (1 - 1e-12):
            upper, high, free = price, free, high
        else:
            lower, low, free = price, free, low
        if upper < lower * (1 + CLOSE):
            break
        price = _between(lower, upper)
    return Bracket(low, high, most, price)


def _between(lower: float, upper: float) -> float:
    """Return the next price to try; `upper` is infinite and `lower` 0 as long as they are not known."""
    if upper == math.inf:
        return 1.5 * lower
    return math.sqrt(lower * upper) if lower > 0.0 else upper / 1.5


def _above(
    wide: Wide, future: Future, room: SweepBuffers, late: Late, price: float, targets: Targets
) -> float:
    """Return the bound at this price of work, and fill in `targets`, the best ones at it."""
    value = compiled(sweep_priced)(wide, future, price, room, targets)
    return float(late.head(price)[0] - price * wide.terms.work_gpu_hours + value)


def _plan(wide: Wide, memory: WideBuffers, found: Bracket, row: Floats, best: float) -> float:
    """Leave the best plan so far in `memory.best_plan`; return its utility, NEVER if none is in time."""
    switches = np.unique(np.linspace(0, wide.terms.deadline_slots, SWITCHES).round().astype(np.int64))
    utility = compiled(better_plan)(
        wide, memory.future, found.low, found.high, switches, memory.plan, memory.spot, memory.on_demand, row,
        memory.best_plan, best,
    )  # fmt: skip
    return float(utility)
