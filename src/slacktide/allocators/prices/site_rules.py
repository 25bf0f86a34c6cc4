"""What allocators on a market share: which pool a job goes to, its width, whether it may wait; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices.deadline_guarantees import is_hard, is_safe, rescue
from slacktide.allocators.site.job_tables import JobTables, Kinds, PoolOffers, SiteMoment, state_of
from slacktide.allocators.view import FleetView, SiteView, Wanted
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compilable
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS

DEADLINE_GPUS = 8  # jobs with a deadline take spot up to this width


def site_of(view: FleetView, name: str) -> SiteView:
    """Return the market that an allocator must be given; raises InputError where there is none."""
    if view.site is None:
        raise InputError(f"{name} must be given a market, got a stream without one; name 'market:'")
    return view.site


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


def moment_of(view: FleetView, name: str) -> SiteMoment:
    """Return what compiled rules read of a view; raises InputError where the allocator has no market."""
    site = site_of(view, name)
    hours = site.next_hours - view.now_hours
    # A whole slot is kept whole, to the last bit.
    hours = site.slot_hours if abs(hours - site.slot_hours) <= TIME_TOLERANCE_HOURS else hours
    return SiteMoment(site.kinds, site.jobs, prices_of(site), view.now_hours, hours, site.slot_hours)


class Wishes(NamedTuple):
    """What each job is to hold: [job]; filled in job by job."""

    pool: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints

    @classmethod
    def none(cls, jobs: JobTables) -> Wishes:
        """Return wishes that let every job wait where it is."""
        return cls(jobs.pool.copy(), *np.zeros((2, len(jobs.kind)), dtype=np.int64))

    @property
    def wanted(self) -> Wanted:
        """The wishes as an allocator's decision."""
        return Wanted(self.on_demand_gpus, self.spot_gpus, pool=self.pool)


@compilable
def not_held(moment: SiteMoment) -> Ints:
    """Return the spot in each pool that no job holds."""
    free, jobs = moment.prices.spot_gpus.copy(), moment.jobs
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
def roomiest(kinds: Kinds, jobs: JobTables, job: int, free: Ints) -> int:
    """Return the pool that a job may be in with the most spot left; of equals, where it is."""
    best = jobs.pool[job]
    for at in range(len(free)):
        if kinds.fastest[jobs.kind[job], at] > 0 and free[at] > free[best]:
            best = at
    return int(best)


@compilable
def take_spot(moment: SiteMoment, job: int, width: int, free: Ints, wishes: Wishes) -> bool:
    """Give a job spot up to a width of what is left, its own included; return whether it has any.

    A job that holds spot stays in its pool, and restarts on a wider set only if that is twice as wide. A job
    with a hard deadline takes only what is safe until the next border.
    """
    kinds, jobs = moment.kinds, moment.jobs
    kind, here = jobs.kind[job], jobs.pool[job]
    # What the market left of its spot may not be an allowed width.
    kept = widest(kinds, kind, here, jobs.spot_gpus[job])
    at = here if min(kept, free[here]) > 0 else roomiest(kinds, jobs, job, free)
    kept = kept if at == here else 0
    most = widest(kinds, kind, at, min(free[at], max(width, least(kinds, kind, at))))
    hard = is_hard(jobs, job)
    for gpus in (most if most >= 2 * kept else kept, kept, most):
        if 0 < gpus <= free[at] and (not hard or is_safe(moment, job, at, gpus, 0)):
            free[at] -= gpus
            wishes.pool[job], wishes.spot_gpus[job] = at, gpus
            return True
    return False


@compilable
def can_wait(moment: SiteMoment, job: int) -> bool:
    """Whether a job may hold nothing until the next border."""
    return not is_hard(moment.jobs, job) or is_safe(moment, job, moment.jobs.pool[job], 0, 0)


@compilable
def take_on_demand(moment: SiteMoment, job: int, wishes: Wishes) -> None:
    """Give a job the cheapest on-demand GPUs that are in time, else those with which it is done soonest."""
    way = rescue(moment, job, state_of(moment.jobs, job), moment.now_hours)
    wishes.pool[job], wishes.on_demand_gpus[job] = way.pool, way.gpus
