"""A planned job and its variants: where it would begin, what is known then, and its runs over futures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slacktide.core.types import Job
from slacktide.journal.events import Sight
from slacktide.market.base import Market, Pool
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import ForeseeingPolicy
from slacktide.policies.view import Policy
from slacktide.results.run import Run
from slacktide.simulation import batch, plain
from slacktide.simulation.plain import guarded, run_over_pools
from slacktide.simulation.plan.futures import PoolFutures, futures_of_pool, futures_of_pools
from slacktide.simulation.playback import Setting
from slacktide.simulation.pool_options import PoolOptions

RECENT_HOURS = 14 * 24.0  # how far back recent starts reach


class PlanStart(NamedTuple):
    """Where a job would begin: its pool, the slot of that pool, and the market's past at that time."""

    market: Market  # the whole record
    past: Market  # what of it is known in the slot in which the job begins: that slot's quote is the last
    pool: str
    slot: int

    @classmethod
    def at(cls, market: Market, pool: str, slot: int) -> PlanStart:
        """Cut a market off after the slot in which a job begins."""
        now = market.pool(pool).time(slot)
        pools = [
            (one, math.floor((now - one.start).total_seconds() / 3600 / one.slot_hours + 1e-6))
            for one in market.pools
        ]
        known = tuple(one.window(0, min(at + 1, len(one))) for one, at in pools if at >= 0)
        return cls(market, Market(known, market.source, market.assumptions, market.moves), pool, slot)

    @property
    def place(self) -> Pool:
        return self.past.pool(self.pool)

    @property
    def neighbours(self) -> tuple[Pool, ...]:
        return tuple(other for other in self.past.pools if other.name != self.pool)

    def reaches_back(self, job: Job) -> bool:
        """Whether the past is as long as the job's deadline, so that there are recent starts in it."""
        return plain.last_start(job, self.place) >= 0

    def recent(self, job: Job) -> PlanStart:
        """Return where recent starts lie: in the past, or if that is too short in the whole record."""
        return self if self.reaches_back(job) else PlanStart(self.market, self.market, self.pool, self.slot)

    def recent_window(self, job: Job) -> Pool:
        """Return the last part of the pool's record, with the recent starts and their deadlines."""
        place = self.recent(job).place
        slots = math.ceil((RECENT_HOURS + job.deadline_hours) / place.slot_hours)
        return place.window(max(0, len(place) - slots), len(place))


def known_at(options: PoolOptions, slot: int) -> PoolOptions | None:
    """Return what is known of a job's pools when it begins in a slot of the first pool.

    Every record is cut off there. Pools not recorded then are left out; None if fewer than two are left.
    """
    kept = []
    for at, pool in enumerate(options.pools):
        last = slot + options.slots_ahead(pool)
        if 0 <= last < len(pool):
            kept.append((at, pool.window(0, last + 1)))
    if len(kept) < 2:
        return None
    recorded = only_pools(options, [at for at, _ in kept])
    return replace(recorded, pools=tuple(pool for _, pool in kept))


def only_pools(options: PoolOptions, rows: Sequence[int]) -> PoolOptions:
    """Return a job that may be in only some of its pools, given by their numbers."""
    jobs, hours, usd, gpus = options.places
    places = options.places._replace(
        jobs=tuple(jobs[at] for at in rows),
        move_hours=hours[np.ix_(rows, rows)],
        move_usd=usd[np.ix_(rows, rows)],
        gpus=tuple(gpus[at] for at in rows) if gpus else (),
    )
    return replace(options, pools=tuple(options.pools[at] for at in rows), places=places)


FUTURES, FUTURES_OF_VARIANTS = 50, 24
"""How many futures a job in one pool has, and its variants, of which there are many to compare."""
FUTURES_OF_GANG, FUTURES_OF_WIDTHS = 12, 6
"""How many futures a job over pools has: a gang; and a job of several widths, whose clairvoyant takes a
second or two in each."""


class Variant(NamedTuple):
    """A change to a job, to see what it does to its cost."""

    deadline_hours: float
    most_gpus: int

    def of(self, job: Job) -> Job:
        """Return the job with this deadline, its worthless time moved along, and without wider widths.

        Its work is taken to be exactly what the file says: what matters is how variants differ, and exact
        work is quicker to solve for.
        """
        later, worthless = self.deadline_hours - job.deadline_hours, job.worthless_after_hours
        if later and worthless is not None:
            worthless += later
        widths = tuple(width for width in job.widths if width <= self.most_gpus) or job.widths[:1]
        return replace(
            job,
            deadline_hours=self.deadline_hours,
            worthless_after_hours=worthless,
            widths=widths,
            pools=(),  # the pools are known already, and their widths need not be among these
            work_spread=0.0,
        )


def could_be_in_time(job: Job) -> bool:
    """Whether on demand from the start would meet the deadline."""
    return job.restart_hours + job.work_hours(job.fastest_width) <= job.deadline_hours


class PlannedJob(NamedTuple):
    """A job before it begins, with the pools that it may use as they were up to now.

    A job that stays in one pool is one over pools that has only one; just its futures are drawn otherwise.
    """

    start: PlanStart
    options: PoolOptions
    paths: int  # over how many futures it is run
    sight: Sight = "feed"
    stays_in: str = ""  # the pool in which its policy stays; empty: it moves, or there is one pool

    @classmethod
    def in_pool(cls, job: Job, start: PlanStart) -> PlannedJob:
        """Return a job that stays in the pool where it starts."""
        return cls(start, PoolOptions.single(job, start.place), FUTURES)

    @classmethod
    def over_pools(cls, start: PlanStart, options: PoolOptions) -> PlannedJob:
        """Return a job that may move; all pools of its options end now."""
        gang = all(len(job.widths) == 1 for job in options.places.jobs)
        return cls(start, options, FUTURES_OF_GANG if gang else FUTURES_OF_WIDTHS)

    @property
    def job(self) -> Job:
        return self.options.job

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The job as it is in each pool that its policy may use."""
        pairs = zip(self.options.pools, self.options.places.jobs, strict=True)
        return tuple(job for pool, job in pairs if self.stays_in in ("", pool.name))

    @property
    def widths(self) -> tuple[int, ...]:
        """Every number of GPUs that it may hold, narrowest first."""
        return tuple(sorted({width for job in self.jobs for width in job.widths}))

    @property
    def moves(self) -> bool:
        return not (self.options.stays or self.stays_in)

    @property
    def setting(self) -> Setting:
        """What a policy that stays may know of other pools."""
        if self.options.stays:
            return Setting(neighbours=self.start.neighbours)
        return Setting(neighbours=tuple(pool for pool in self.options.pools if pool.name != self.stays_in))

    def draw(self, seed: int = 0) -> PoolFutures:
        if not self.options.stays:
            return futures_of_pools(self.options, paths=self.paths)
        place, others = self.start.place, self.start.neighbours
        return futures_of_pool(self.job, place, others, paths=self.paths, seed=seed)

    def prepared(self, futures: PoolFutures, policy: Policy) -> list[Policy]:
        """Return a policy for each future, with everything computed in advance that can be."""
        if self.moves:
            return [guarded(policy, self.job)] * len(futures.options)
        (job,) = self.jobs
        pools, start = self._staying(futures)
        return batch.prepare_together(guarded(policy, job), job, pools, start, self.setting)

    def run(
        self, futures: PoolFutures, ready: Sequence[Policy], truths: Sequence[Truth] | None = None
    ) -> Sequence[Run]:
        """Run prepared policies over futures that were drawn for this job or for a variant of it.

        With truths, the job really differs from its file in each future.
        """
        really = truths or [AS_SAID] * len(futures.options)
        if not self.moves:
            return self._stay(futures, ready, really)
        pools_by_future = [self._in(future) for future in futures.options]
        # All pools end together, so the start is counted from the end, whichever pool comes first.
        return [
            run_over_pools(
                options, acting, start=_start(options.pools[0], futures), sight=self.sight,
                setting=Setting(truth=truth),
            )
            for options, acting, truth in zip(pools_by_future, ready, really, strict=True)
        ]  # fmt: skip

    def run_slots(self, futures: PoolFutures, ready: Sequence[Policy]) -> Sequence[Run]:
        """Run policies that stay, each in one future, slot by slot; the runs keep their slots."""
        (job,) = self.jobs
        pools, start = self._staying(futures)
        return [
            plain.run(job, future, one, start=start, setting=self.setting)
            for future, one in zip(pools, ready, strict=False)
        ]

    def run_variants(self, variants: Sequence[Variant], policy: Policy) -> dict[Variant, Sequence[Run]]:
        """Run those variants that can meet their deadline, all over the same futures."""
        changed = {variant: self._changed(variant) for variant in variants}
        able = {variant: job for variant, job in changed.items() if any(map(could_be_in_time, job.jobs))}
        longest = max((variant.deadline_hours for variant in able), default=self.job.deadline_hours)
        widest = max(max(job.widths) for job in self.options.places.jobs)
        lasting, acting, seed = self._changed(Variant(longest, widest)), policy, 0
        if self.options.stays:
            lasting, seed = lasting._replace(paths=FUTURES_OF_VARIANTS), 1
            # All points of a curve use the coarser form of the policy, so their differences stay fair.
            acting = policy.coarser() if isinstance(policy, ForeseeingPolicy) else policy
        futures = lasting.draw(seed)
        return {variant: job.run(futures, job.prepared(futures, acting)) for variant, job in able.items()}

    def _stay(self, futures: PoolFutures, ready: Sequence[Policy], truths: Sequence[Truth]) -> Sequence[Run]:
        (job,) = self.jobs
        pools, start = self._staying(futures)
        setting = self.setting
        if all(truth == AS_SAID for truth in truths):
            return batch.run_ready(job, pools, ready, start, setting=setting)
        runs: list[Run] = []
        for future, policy, truth in zip(pools, ready, truths, strict=True):
            really = replace(setting, truth=truth)
            runs += batch.run_ready(job, [future], [policy], start, setting=really)
        return runs

    def _staying(self, futures: PoolFutures) -> tuple[list[Pool], int]:
        """Return the pool of a policy that stays, as it is in each future, and where the future begins."""
        name = self.stays_in or self.start.pool
        pools = [next(pool for pool in future.pools if pool.name == name) for future in futures.options]
        return pools, _start(pools[0], futures)

    def _in(self, future: PoolOptions) -> PoolOptions:
        names = {pool.name for pool in self.options.pools}
        pools = tuple(pool for pool in future.pools if pool.name in names)
        return replace(self.options, pools=pools)

    def _changed(self, variant: Variant) -> PlannedJob:
        """Return the job as a variant says, without the pools whose narrowest width is too wide for it."""
        jobs = self.options.places.jobs
        rows = [at for at, job in enumerate(jobs) if job.widths[0] <= variant.most_gpus]
        kept = only_pools(self.options, rows)
        places = kept.places._replace(jobs=tuple(variant.of(job) for job in kept.places.jobs))
        return self._replace(options=replace(kept, job=variant.of(kept.job), places=places))


def _start(pool: Pool, futures: PoolFutures) -> int:
    return len(pool) - futures.slots
