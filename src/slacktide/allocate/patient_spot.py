"""What a careful team does without prices: spot first come first served, on demand after a wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocate.base import allocators, at_least_one
from slacktide.allocate.promises import held_on, is_hard, is_safe, rescue
from slacktide.allocate.site_arrays import Prices, hours_until_border, prices_of
from slacktide.arrays import Ints
from slacktide.compiled import compilable, compiled
from slacktide.deciding import FleetView, Wanted
from slacktide.errors import InputError
from slacktide.site.kinds import Kinds, Lives, state_of

DEADLINE_GPUS = 8
"""Jobs with a deadline take spot up to this width."""


@allocators.register
@dataclass(frozen=True, slots=True)
class PatientSpot:
    """Give jobs spot first come first served on one width, and on demand to who has waited long enough.

    The strongest of the rules that a team would otherwise run. A job with a deadline takes spot up to eight
    GPUs, rents on demand when it falls behind a straight line to its deadline, and is behind the same guard
    as all others. It does not look at the budget: `width` and `wait_hours` are what it is tuned by.
    """

    width: int = 4
    """The width of a job without a deadline; narrower where less spot is left."""
    wait_hours: float = 1.0
    """After this long without spot it runs on demand."""
    needs_market: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least_one("width", self.width)
        if not self.wait_hours >= 0:
            raise InputError(f"wait_hours must be >= 0, got {self.wait_hours:g}")

    def decide(self, view: FleetView) -> Wanted:
        site = view.site
        if site is None:
            raise InputError("patient-spot must be given a market, got a stream without one; name 'market:'")
        pool, (spot, on_demand) = site.jobs.pool.copy(), np.zeros((2, len(site.jobs.kind)), dtype=np.int64)
        compiled(share_out)(
            site.kinds, site.jobs, prices_of(site), view.now_hours, hours_until_border(view),
            self.width, self.wait_hours, pool, spot, on_demand,
        )  # fmt: skip
        return Wanted(on_demand, spot, pool=pool)


@compilable
def share_out(
    kinds: Kinds,
    lives: Lives,
    prices: Prices,
    now_hours: float,
    hours: float,
    width: int,
    wait_hours: float,
    pool: Ints,
    spot: Ints,
    on_demand: Ints,
) -> None:
    """Serve jobs in the order in which they came; what is held is kept."""
    free = prices.spot_gpus.copy()
    for job in range(len(pool)):
        free[lives.pool[job]] -= lives.spot_gpus[job]
    for job in range(len(pool)):
        here, have = lives.pool[job], lives.spot_gpus[job]
        hard = is_hard(lives, job)
        if hard and must_be_rescued(kinds, lives, job, now_hours, hours):
            free[here] += have
            pool[job], on_demand[job] = rescue(
                kinds, lives, job, state_of(lives, job), now_hours, prices.on_demand_usd
            )
            continue
        at = here if have > 0 else roomiest(kinds, lives, job, free)
        room = free[at] + (have if at == here else 0)
        most = kinds.fit[
            lives.kind[job], at, min(room, DEADLINE_GPUS if hard else width, kinds.fit.shape[2] - 1)
        ]
        # A wider set is worth a restart only where it is twice as wide.
        wider = most >= 2 * have and (not hard or is_safe(kinds, lives, job, now_hours, hours, at, most, 0))
        gpus = most if wider else have
        if gpus > 0:
            free[at] -= gpus - (have if at == here else 0)
            pool[job], spot[job] = at, gpus
        elif hard:
            if behind(kinds, lives, job, now_hours):
                pool[job], on_demand[job] = rescue(
                    kinds, lives, job, state_of(lives, job), now_hours, prices.on_demand_usd
                )
        elif lives.on_demand_gpus[job] > 0:
            on_demand[job] = lives.on_demand_gpus[job]
        elif now_hours - lives.spot_until_hours[job] >= wait_hours - 1e-9:
            pool[job] = cheapest(kinds, lives, job, prices)
            kind, limit = lives.kind[job], kinds.fit.shape[2] - 1
            on_demand[job] = max(kinds.fit[kind, pool[job], min(width, limit)], least(kinds, kind, pool[job]))


@compilable
def must_be_rescued(kinds: Kinds, lives: Lives, job: int, now_hours: float, hours: float) -> bool:
    """Whether neither waiting nor the spot that a job holds is safe until the next border."""
    here, have = lives.pool[job], lives.spot_gpus[job]
    if is_safe(kinds, lives, job, now_hours, hours, here, 0, 0):
        return False
    return have == 0 or not is_safe(kinds, lives, job, now_hours, hours, here, have, 0)


@compilable
def behind(kinds: Kinds, lives: Lives, job: int, now_hours: float) -> bool:
    """Whether a job is behind the straight line to its deadline, or catching up on demand in time for it."""
    if held_on(lives, kinds, job, state_of(lives, job), now_hours) < np.inf:
        return True
    work = lives.ends_gpu_hours[job, kinds.phases[lives.kind[job]] - 1]
    passed = now_hours - lives.submitted_hours[job]
    due = work * passed / (lives.deadline_hours[job] - lives.submitted_hours[job])
    return bool(lives.progress_gpu_hours[job] < due)


@compilable
def roomiest(kinds: Kinds, lives: Lives, job: int, free: Ints) -> int:
    """Return the pool that a job may be in with the most spot left; of equals, where it is."""
    best = lives.pool[job]
    for at in range(len(free)):
        if kinds.fastest[lives.kind[job], at] > 0 and free[at] > free[best]:
            best = at
    return int(best)


@compilable
def cheapest(kinds: Kinds, lives: Lives, job: int, prices: Prices) -> int:
    """Return the pool that a job may be in with the cheapest on-demand GPUs; of equals, where it is."""
    best = lives.pool[job]
    for at in range(len(prices.on_demand_usd)):
        may = kinds.fastest[lives.kind[job], at] > 0
        if may and prices.on_demand_usd[at] < prices.on_demand_usd[best]:
            best = at
    return int(best)


@compilable
def least(kinds: Kinds, kind: int, pool: int) -> int:
    """Return the narrowest width that a kind may have in a pool."""
    width = 1
    while kinds.fit[kind, pool, width] != width:
        width += 1
    return width
