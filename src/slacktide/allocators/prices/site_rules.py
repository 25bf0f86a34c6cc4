"""What compiled allocators on a site share: where a job goes, how wide it may be, when it must be rescued."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices.deadline_guarantees import is_hard, is_safe, rescue
from slacktide.allocators.site.job_tables import JobTables, Kinds, state_of
from slacktide.allocators.view import FleetView, SiteView, Wanted
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS

DEADLINE_GPUS = 8  # jobs with a deadline take spot up to this width


def site_of(view: FleetView, name: str) -> SiteView:
    """Return the market that an allocator must be given; raises InputError where there is none."""
    if view.site is None:
        raise InputError(f"{name} must be given a market, got a stream without one; name 'market:'")
    return view.site


class PoolOffers(NamedTuple):
    """What each pool offers to all jobs: [pool]."""

    spot_usd: Floats
    on_demand_usd: Floats
    spot_gpus: Ints
    on_demand_gpus: Ints


def prices_of(site: SiteView) -> PoolOffers:
    """Return what the pools of a site offer."""
    spot_usd, on_demand_usd, spot_gpus, on_demand_gpus = zip(
        *(pool.quote for pool in site.pools), strict=True
    )
    return PoolOffers(
        np.array(spot_usd, dtype=np.float64),
        np.array(on_demand_usd, dtype=np.float64),
        np.array(spot_gpus, dtype=np.int64),
        np.array(on_demand_gpus, dtype=np.int64),
    )


def hours_until_border(view: FleetView) -> float:
    """Return how long it is until the market changes; a whole slot is kept whole, to the last bit."""
    assert view.site is not None
    hours = view.site.next_hours - view.now_hours
    return view.site.slot_hours if abs(hours - view.site.slot_hours) <= TIME_TOLERANCE_HOURS else hours


class Wishes(NamedTuple):
    """What each job is to hold: [job]; filled in job by job."""

    pool: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints

    @classmethod
    def none(cls, site: SiteView) -> Wishes:
        """Return wishes that let every job wait where it is."""
        return cls(site.jobs.pool.copy(), *np.zeros((2, len(site.jobs.kind)), dtype=np.int64))

    @property
    def wanted(self) -> Wanted:
        """The decision that they are."""
        return Wanted(self.on_demand_gpus, self.spot_gpus, pool=self.pool)


@compilable
def not_held(jobs: JobTables, prices: PoolOffers) -> Ints:
    """Return the spot in each pool that no job holds."""
    free = prices.spot_gpus.copy()
    for job in range(len(jobs.pool)):
        free[jobs.pool[job]] -= jobs.spot_gpus[job]
    return free


@compilable
def widest(kinds: Kinds, kind: int, pool: int, gpus: int) -> int:
    """Return the widest width that a kind may have in a pool within this many GPUs; 0 if there is none."""
    return int(kinds.fit[kind, pool, max(0, min(gpus, kinds.fit.shape[2] - 1))])


@compilable
def least(kinds: Kinds, kind: int, pool: int) -> int:
    """Return the narrowest width that a kind may have in a pool."""
    width = 1
    while kinds.fit[kind, pool, width] != width:
        width += 1
    return width


@compilable
def held_spot(kinds: Kinds, jobs: JobTables, job: int) -> int:
    """Return the spot that a job can go on with; what the market left it may be no width of its own."""
    return widest(kinds, jobs.kind[job], jobs.pool[job], jobs.spot_gpus[job])


@compilable
def roomiest(kinds: Kinds, jobs: JobTables, job: int, free: Ints) -> int:
    """Return the pool that a job may be in with the most spot left; of equals, where it is."""
    best = jobs.pool[job]
    for at in range(len(free)):
        if kinds.fastest[jobs.kind[job], at] > 0 and free[at] > free[best]:
            best = at
    return int(best)


@compilable
def take_spot(
    kinds: Kinds,
    jobs: JobTables,
    job: int,
    now_hours: float,
    hours: float,
    width: int,
    free: Ints,
    wishes: Wishes,
) -> bool:
    """Give a job spot up to a width of what is left, its own included; return whether it has any.

    Who holds some stays where it is, and a wider set is worth a restart only where it is twice as wide. A job
    with a hard deadline takes only what is safe until the next border.
    """
    kind, here = jobs.kind[job], jobs.pool[job]
    kept = held_spot(kinds, jobs, job)
    at = here if min(kept, free[here]) > 0 else roomiest(kinds, jobs, job, free)
    kept = kept if at == here else 0
    most = widest(kinds, kind, at, min(free[at], max(width, least(kinds, kind, at))))
    hard = is_hard(jobs, job)
    for gpus in (most if most >= 2 * kept else kept, kept, most):
        fits = 0 < gpus <= free[at]
        if fits and (not hard or is_safe(kinds, jobs, job, now_hours, hours, at, gpus, 0)):
            free[at] -= gpus
            wishes.pool[job], wishes.spot_gpus[job] = at, gpus
            return True
    return False


@compilable
def can_wait(kinds: Kinds, jobs: JobTables, job: int, now_hours: float, hours: float) -> bool:
    """Whether a job may hold nothing until the next border."""
    if not is_hard(jobs, job):
        return True
    return is_safe(kinds, jobs, job, now_hours, hours, jobs.pool[job], 0, 0)


@compilable
def take_on_demand(
    kinds: Kinds, jobs: JobTables, job: int, now_hours: float, prices: PoolOffers, wishes: Wishes
) -> None:
    """Give a job the cheapest on-demand GPUs that are in time, else those with which it is done soonest."""
    state = state_of(jobs, job)
    wishes.pool[job], wishes.on_demand_gpus[job] = rescue(
        kinds, jobs, job, state, now_hours, prices.on_demand_usd
    )
