"""What compiled allocators on a site share: where a job goes, how wide it may be, when it must be rescued."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices.promises import is_hard, is_safe, rescue
from slacktide.allocators.prices.site_arrays import Prices
from slacktide.allocators.site.kinds import Kinds, Lives, state_of
from slacktide.allocators.view import FleetView, SiteView, Wanted
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compilable
from slacktide.core.errors import InputError

DEADLINE_GPUS = 8
"""Jobs with a deadline take spot up to this width."""


def site_of(view: FleetView, name: str) -> SiteView:
    """Return the market that an allocator must be given; raises InputError where there is none."""
    if view.site is None:
        raise InputError(f"{name} must be given a market, got a stream without one; name 'market:'")
    return view.site


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
def not_held(lives: Lives, prices: Prices) -> Ints:
    """Return the spot in each pool that no job holds."""
    free = prices.spot_gpus.copy()
    for job in range(len(lives.pool)):
        free[lives.pool[job]] -= lives.spot_gpus[job]
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
def held_spot(kinds: Kinds, lives: Lives, job: int) -> int:
    """Return the spot that a job can go on with; what the market left it may be no width of its own."""
    return widest(kinds, lives.kind[job], lives.pool[job], lives.spot_gpus[job])


@compilable
def roomiest(kinds: Kinds, lives: Lives, job: int, free: Ints) -> int:
    """Return the pool that a job may be in with the most spot left; of equals, where it is."""
    best = lives.pool[job]
    for at in range(len(free)):
        if kinds.fastest[lives.kind[job], at] > 0 and free[at] > free[best]:
            best = at
    return int(best)


@compilable
def take_spot(
    kinds: Kinds,
    lives: Lives,
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
    kind, here = lives.kind[job], lives.pool[job]
    kept = held_spot(kinds, lives, job)
    at = here if min(kept, free[here]) > 0 else roomiest(kinds, lives, job, free)
    kept = kept if at == here else 0
    most = widest(kinds, kind, at, min(free[at], max(width, least(kinds, kind, at))))
    hard = is_hard(lives, job)
    for gpus in (most if most >= 2 * kept else kept, kept, most):
        fits = 0 < gpus <= free[at]
        if fits and (not hard or is_safe(kinds, lives, job, now_hours, hours, at, gpus, 0)):
            free[at] -= gpus
            wishes.pool[job], wishes.spot_gpus[job] = at, gpus
            return True
    return False


@compilable
def can_wait(kinds: Kinds, lives: Lives, job: int, now_hours: float, hours: float) -> bool:
    """Whether a job may hold nothing until the next border."""
    if not is_hard(lives, job):
        return True
    return is_safe(kinds, lives, job, now_hours, hours, lives.pool[job], 0, 0)


@compilable
def take_on_demand(
    kinds: Kinds, lives: Lives, job: int, now_hours: float, prices: Prices, wishes: Wishes
) -> None:
    """Give a job the cheapest on-demand GPUs that are in time, else those with which it is done soonest."""
    state = state_of(lives, job)
    wishes.pool[job], wishes.on_demand_gpus[job] = rescue(
        kinds, lives, job, state, now_hours, prices.on_demand_usd
    )
