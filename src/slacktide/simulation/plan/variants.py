"""A job with another deadline or fewer GPUs, run over simulated futures: in one pool or over pools."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from slacktide.core.types import Job
from slacktide.journal.events import Sight
from slacktide.market.base import Pool
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import ForeseeingPolicy
from slacktide.policies.view import Policy
from slacktide.results.run import Run
from slacktide.simulation import batch, plain, policy_runs
from slacktide.simulation.plain import Setting, run_over_pools
from slacktide.simulation.plan.pool_futures import PoolFutures, only_pools, pool_futures
from slacktide.simulation.plan.scenarios import scenarios
from slacktide.simulation.pool_options import PoolOptions

FUTURES = 24
"""Over how many futures variants are run in one pool."""


class Variant(NamedTuple):
    """What is changed in a job to see what that does to its cost."""

    deadline_hours: float
    most_gpus: int

    def of(self, job: Job) -> Job:
        """Return the job with this deadline, its worthless time moved along, and without wider widths.

        Its work is taken to be what the file says: what matters is how variants differ, and certain work is
        quicker to solve for.
        """
        later, worthless = self.deadline_hours - job.deadline_hours, job.worthless_after_hours
        if later and worthless is not None:
            worthless += later
        widths = tuple(width for width in job.widths if width <= self.most_gpus) or job.widths[:1]
        return dataclasses.replace(
            job,
            deadline_hours=self.deadline_hours,
            worthless_after_hours=worthless,
            widths=widths,
            pools=(),  # the pools are settled before, and their widths need not be among these
            work_spread=0.0,
        )


class Planned(Protocol):
    """A job and the past of where it may run: variants of it can be run over futures drawn from that."""

    @property
    def job(self) -> Job:
        """The job as it is."""
        ...

    @property
    def widths(self) -> tuple[int, ...]:
        """Every number of GPUs that it may hold, narrowest first."""
        ...

    def run_variants(self, variants: Sequence[Variant], policy: Policy) -> dict[Variant, Sequence[Run]]:
        """Run those variants that could be in time, all over the same futures."""
        ...


def could_be_in_time(job: Job) -> bool:
    """Whether on demand from the start would meet the deadline."""
    return job.restart_hours + job.work_hours(job.fastest_width) <= job.deadline_hours


class InOnePool(NamedTuple):
    """A job that stays in one pool."""

    job: Job
    place: Pool
    neighbours: tuple[Pool, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return self.job.widths

    def run_variants(self, variants: Sequence[Variant], policy: Policy) -> dict[Variant, Sequence[Run]]:
        jobs = {one: one.of(self.job) for one in variants}
        jobs = {one: job for one, job in jobs.items() if could_be_in_time(job)}
        longest = max((one.deadline_hours for one in jobs), default=self.job.deadline_hours)
        whole = dataclasses.replace(self.job, deadline_hours=longest, worthless_after_hours=None)
        drawn, start = scenarios(whole, self.place, self.neighbours, paths=FUTURES, seed=1)
        # All points of a curve are made with the coarser form, so their differences stay fair.
        acting = policy.coarser() if isinstance(policy, ForeseeingPolicy) else policy
        setting = Setting(neighbours=self.neighbours)
        return {
            one: batch.run_futures(job, drawn, policy_runs.guarded(acting, job), start, setting=setting)
            for one, job in jobs.items()
        }


class OverPools(NamedTuple):
    """A job that may move, with a policy that moves it or that stays in one of its pools."""

    ground: PoolOptions
    paths: int
    """Over how many futures it is run."""
    sight: Sight = "feed"
    stays_in: str = ""
    """The pool in which the policy stays; empty: it moves."""

    @property
    def job(self) -> Job:
        return self.ground.job

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The job as it is in each pool that its policy may use."""
        pairs = zip(self.ground.pools, self.ground.places.jobs, strict=True)
        return tuple(job for pool, job in pairs if self.stays_in in ("", pool.name))

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(sorted({width for job in self.jobs for width in job.widths}))

    def run_variants(self, variants: Sequence[Variant], policy: Policy) -> dict[Variant, Sequence[Run]]:
        changed = {one: self._changed(one) for one in variants}
        able = {one: here for one, here in changed.items() if any(map(could_be_in_time, here.jobs))}
        longest = max((one.deadline_hours for one in able), default=self.job.deadline_hours)
        lasting = self._changed(Variant(longest, max(max(job.widths) for job in self.ground.places.jobs)))
        futures = pool_futures(lasting.ground, paths=self.paths)
        return {one: here.run(futures, policy) for one, here in able.items()}

    def run(
        self, futures: PoolFutures, policy: Policy, truths: Sequence[Truth] | None = None
    ) -> Sequence[Run]:
        """Run a policy over futures that were drawn for this job or for a variant of it."""
        really = truths or [AS_SAID] * len(futures.grounds)
        if self.stays_in:
            return self._stay(futures, policy, really)
        acting = policy_runs.guarded(policy, self.job)
        grounds = [self._in(future) for future in futures.grounds]
        # All pools end together, so that a start is found from the end, whichever pool comes first.
        starts = [len(here.pools[0]) - futures.slots for here in grounds]
        return [
            run_over_pools(here, acting, start=start, sight=self.sight, setting=Setting(truth=truth))
            for here, start, truth in zip(grounds, starts, really, strict=True)
        ]

    def run_slots(self, futures: PoolFutures, policy: Policy) -> Sequence[Run]:
        """Run a policy that stays slot by slot, so that the runs keep what was held when."""
        (job,) = self.jobs
        drawn, start, setting = self._drawn(futures)
        ready = batch.prepare_together(policy_runs.guarded(policy, job), job, drawn, start, setting)
        return [
            plain.run(job, future, one, start=start, setting=setting)
            for future, one in zip(drawn, ready, strict=True)
        ]

    def _stay(self, futures: PoolFutures, policy: Policy, truths: Sequence[Truth]) -> Sequence[Run]:
        (job,) = self.jobs
        drawn, start, setting = self._drawn(futures)
        ready = batch.prepare_together(policy_runs.guarded(policy, job), job, drawn, start, setting)
        return run_wrong(job, drawn, ready, start, setting, truths)

    def _drawn(self, futures: PoolFutures) -> tuple[list[Pool], int, Setting]:
        """Return the pool of a policy that stays, as it is in each future, the first slot, the setting."""
        drawn = [
            next(pool for pool in future.pools if pool.name == self.stays_in) for future in futures.grounds
        ]
        others = tuple(pool for pool in self.ground.pools if pool.name != self.stays_in)
        return drawn, len(drawn[0]) - futures.slots, Setting(neighbours=others)

    def _in(self, future: PoolOptions) -> PoolOptions:
        """Return this job in the pools of a future that it may use."""
        names = {pool.name for pool in self.ground.pools}
        pools = tuple(pool for pool in future.pools if pool.name in names)
        return dataclasses.replace(self.ground, pools=pools)

    def _changed(self, variant: Variant) -> OverPools:
        """Return the job as a variant says, without the pools whose narrowest width is too wide for it."""
        jobs = self.ground.places.jobs
        rows = [at for at, job in enumerate(jobs) if job.widths[0] <= variant.most_gpus]
        kept = only_pools(self.ground, rows)
        places = kept.places._replace(jobs=tuple(variant.of(job) for job in kept.places.jobs))
        return self._replace(ground=dataclasses.replace(kept, job=variant.of(kept.job), places=places))


def run_wrong(
    job: Job,
    futures: Sequence[Pool],
    ready: Sequence[Policy],
    start: int,
    setting: Setting,
    truths: Sequence[Truth],
) -> Sequence[Run]:
    """Run in each future of a pool the policy prepared for it, on a job that really is another."""
    if all(truth == AS_SAID for truth in truths):
        return batch.run_ready(job, futures, ready, start, setting=setting)
    runs: list[Run] = []
    for future, policy, truth in zip(futures, ready, truths, strict=True):
        one = dataclasses.replace(setting, truth=truth)
        runs += batch.run_ready(job, [future], [policy], start, setting=one)
    return runs
