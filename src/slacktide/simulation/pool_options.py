"""The pools that one job may use: how it runs in each, what moves cost, which of its wishes is fulfilled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from slacktide.core.errors import UnknownNameError, shown
from slacktide.core.quotes import Quote, Sighting
from slacktide.core.types import Allocation, Job, JobState
from slacktide.core.units import MAX_GPUS
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import UsablePool, job_at, move_matrices, places_of
from slacktide.market.tape import MarketView
from slacktide.physics import progress as physics
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import late
from slacktide.policies.pools.rescue import late_in
from slacktide.policies.view import Places, stays_in


@dataclass(frozen=True, slots=True, eq=False)
class PoolOptions:
    """A job with the pools that it may use; the slots of a run are counted on the first of them."""

    job: Job
    pools: tuple[Pool, ...]
    places: Places
    stays: bool = False
    """Whether it has one pool and may not move. Its policy is then shown no places, and where the pool cannot
    fulfil a wish, it gets what the pool has; a job that may move would try its next wish."""

    @classmethod
    def of(cls, job: Job, gpu: str, market: Market, names: Sequence[str] | None = None) -> PoolOptions:
        """Find the pools that a job may use, or take those named; raises InputError if there are none."""
        found = {place.pool: place for place in places_of(job, gpu, market)}
        pools = tuple(market.pool(name) for name in (found if names is None else names))
        jobs = tuple(
            job_at(job, found.get(pool.name, UsablePool(pool.name, job.widths, 1.0))) for pool in pools
        )
        usd, hours = move_matrices(market.moves, job.checkpoint_gb, [pool.name for pool in pools])
        return cls(job, pools, Places(jobs, hours, usd, tuple(pool.gpu or gpu for pool in pools)))

    @classmethod
    def single(cls, job: Job, pool: Pool) -> PoolOptions:
        no_moves = np.zeros((1, 1))
        return cls(job, (pool,), Places((job,), no_moves, no_moves, (pool.gpu,)), stays=True)

    @property
    def slot_hours(self) -> float:
        return self.pools[0].slot_hours

    @property
    def names(self) -> list[str]:
        return [pool.name for pool in self.pools]

    def slots_ahead(self, pool: Pool) -> int:
        """Return how many slots a pool's record begins before that of the first pool."""
        return round((self.pools[0].start - pool.start) / timedelta(hours=self.slot_hours))

    @property
    def widths(self) -> list[tuple[Pool, int]]:
        """Each pool with the job's fastest width there."""
        return [(pool, job.fastest_width) for pool, job in zip(self.pools, self.places.jobs, strict=True)]

    def terms(self, truth: Truth = AS_SAID) -> list[physics.Terms]:
        """Return the numbers that physics needs of the job, for each pool."""
        return [
            physics.terms(truth.of(job), move_hours=self.places.move_hours[:, pool])
            for pool, job in enumerate(self.places.jobs)
        ]

    def index(self, pool: str) -> int:
        """Return the number of a pool; raises UnknownNameError for one that the job may not use."""
        names = self.names
        if pool not in names:
            raise UnknownNameError("pool", pool, names, place=f"job {shown(self.job.name)}: ")
        return names.index(pool)

    def late(
        self, terms: Sequence[physics.Terms], quotes: Sequence[Quote], state: JobState, now_hours: float
    ) -> Allocation:
        if self.stays:
            return late(terms[0], state, quotes[0].keeping(state.on_demand_gpus))
        return late_in(terms, self.places, self.names, quotes, state, now_hours)


class Obtained(NamedTuple):
    """The pool and GPUs that a job got from its wishes."""

    pool: int
    spot_gpus: int
    on_demand_gpus: int


def obtain(
    pools: PoolOptions,
    terms: Sequence[physics.Terms],
    moment: MarketView,
    state: JobState,
    wanted: Allocation,
    sightings: Sequence[list[Sighting]],
) -> Obtained:
    """Try wishes in order until a pool can fulfil one; what is seen of spot is added to the sightings.

    A wish that cannot be fulfilled costs nothing, and the next one is tried; if spot was lacking, that is a
    sighting. If the last wish lacks nothing but on-demand GPUs, the job gets as many as there are. A job
    that may not move gets what there is of its only wish.
    """
    if pools.stays:
        stays_in(wanted, pools.pools[0].name, pools.job.name)
        return _cut(terms[0], _offer(moment, state, 0), 0, wanted.spot_gpus, wanted.on_demand_gpus)
    for number, wish in enumerate(wanted.wishes):
        pool = state.pool if wish.pool is None else pools.index(wish.pool)
        quote = _offer(moment, state, pool)
        if wish.spot_gpus > quote.spot_gpus:
            sightings[pool].append(Sighting(moment.hours, 0, wish.spot_gpus - 1))
            continue
        stocked = physics.is_stocked(terms[pool], quote, wish.spot_gpus, wish.on_demand_gpus)
        if stocked or number == len(wanted.instead):
            if wish.spot_gpus:
                sightings[pool].append(Sighting(moment.hours, wish.spot_gpus, MAX_GPUS))
            return _cut(terms[pool], quote, pool, wish.spot_gpus, wish.on_demand_gpus)
    return Obtained(state.pool, 0, 0)


def _offer(moment: MarketView, state: JobState, pool: int) -> Quote:
    """Return what a pool offers a job, which keeps the on-demand GPUs that it already holds there."""
    quote = moment[pool].quote
    return quote.keeping(state.on_demand_gpus) if pool == state.pool else quote


def _cut(terms: physics.Terms, quote: Quote, pool: int, spot_gpus: int, on_demand_gpus: int) -> Obtained:
    spot, on_demand = physics.cut(terms, quote, spot_gpus, on_demand_gpus)
    return Obtained(pool, int(spot), int(on_demand))
