"""The pools that one job may use: how it runs in each of them, and what moves between them cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.core.errors import UnknownNameError, shown
from slacktide.core.quotes import Quote
from slacktide.core.types import Allocation, Job, JobState
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import UsablePool, job_at, move_matrices, places_of
from slacktide.physics import progress as physics
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import late
from slacktide.policies.pools.rescue import late_in
from slacktide.policies.view import Places


@dataclass(frozen=True, slots=True, eq=False)
class PoolOptions:
    """A job with the pools that it may use; the slots of a run are counted on the first of them."""

    job: Job
    pools: tuple[Pool, ...]
    places: Places
    stays: bool = False
    """Whether it has one pool and may not move: its policy is shown no places, and gets what is left of a
    wish that the pool cannot fulfil, where a job that may move would try its next wish."""

    @classmethod
    def of(cls, job: Job, gpu: str, market: Market, names: Sequence[str] | None = None) -> PoolOptions:
        """Find the pools of a market that a job may use, or take those named; raises InputError for none."""
        found = {place.pool: place for place in places_of(job, gpu, market)}
        pools = tuple(market.pool(name) for name in (found if names is None else names))
        jobs = tuple(
            job_at(job, found.get(pool.name, UsablePool(pool.name, job.widths, 1.0))) for pool in pools
        )
        usd, hours = move_matrices(market.moves, job.checkpoint_gb, [pool.name for pool in pools])
        return cls(job, pools, Places(jobs, hours, usd, tuple(pool.gpu or gpu for pool in pools)))

    @classmethod
    def single(cls, job: Job, pool: Pool) -> PoolOptions:
        """Return a job that stays in one pool."""
        no_moves = np.zeros((1, 1))
        return cls(job, (pool,), Places((job,), no_moves, no_moves, (pool.gpu,)), stays=True)

    @property
    def slot_hours(self) -> float:
        """How long a slot of the first pool is."""
        return self.pools[0].slot_hours

    @property
    def names(self) -> list[str]:
        """The names of the pools, in order."""
        return [pool.name for pool in self.pools]

    def terms(self, truth: Truth = AS_SAID) -> list[physics.Terms]:
        """Return the job as bare numbers, in each pool."""
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
        """Return what the job holds after its deadline."""
        if self.stays:
            return late(terms[0], state, quotes[0].keeping(state.on_demand_gpus))
        return late_in(terms, self.places, self.names, quotes, state, now_hours)
