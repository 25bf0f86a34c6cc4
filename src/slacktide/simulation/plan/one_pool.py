"""What a job in one pool will probably cost: from simulated futures and from recent starts of its market."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.types import Allocation, Job, JobState
from slacktide.market.base import Pool
from slacktide.physics.truth import Truth
from slacktide.policies.base import ForeseeingPolicy
from slacktide.policies.decision import decision_of
from slacktide.policies.view import Policy, look
from slacktide.results.plan import HeldAt, JobPlan, Outcomes, Outlook, PoolBill
from slacktide.results.run import CLAIRVOYANT, Run
from slacktide.results.runs import column
from slacktide.simulation import batch, plain, policy_runs
from slacktide.simulation.compare import Progress, Starts
from slacktide.simulation.plain import Setting
from slacktide.simulation.plan import assumptions
from slacktide.simulation.plan.begin import Begin
from slacktide.simulation.plan.curves import against_deadline, against_width
from slacktide.simulation.plan.outcomes import held_over_time, outcomes
from slacktide.simulation.plan.scenarios import scenarios
from slacktide.simulation.plan.variants import InOnePool, run_wrong
from slacktide.simulation.plan.wrong_work import if_work_is_wrong
from slacktide.simulation.policy_runs import label

RECENT_STARTS, FEWEST_STARTS = 24, 6
RECENT_EFFORT = 7e8
"""What solving for all recent starts together may take, in values worked out: a second or two of CPU.
A policy that takes more is run from fewer of them, and from FEWEST_STARTS at the least."""
FUTURES = 50
"""Futures that are drawn from the model."""
TRIED_CHECKPOINT_HOURS = 10 / 60
"""The interval that is tried to say what a checkpoint would save a job that has none."""
SHOWN_FUTURES = 12
"""Futures that are run slot by slot, to show the GPUs held over time."""


class Drawn(NamedTuple):
    """A job at the beginning of its futures."""

    job: Job
    futures: list[Pool]
    start: int
    setting: Setting

    @classmethod
    def of(cls, job: Job, begin: Begin) -> Drawn:
        """Draw futures for a job from where it would begin."""
        futures, start = scenarios(job, begin.place, begin.neighbours, paths=FUTURES)
        return cls(job, futures, start, Setting(neighbours=begin.neighbours))

    def prepared(self, policy: Policy) -> list[Policy]:
        """Return a policy with everything worked out that can be, for each future."""
        acting = policy_runs.guarded(policy, self.job)
        return batch.prepare_together(acting, self.job, self.futures, self.start, self.setting)

    def run(self, ready: Sequence[Policy]) -> Sequence[Run]:
        """Run a prepared policy in each future."""
        return batch.run_ready(self.job, self.futures, ready, self.start, setting=self.setting)

    def run_wrong(self, ready: Sequence[Policy], truths: Sequence[Truth]) -> Sequence[Run]:
        """Run it in each future on a job that really is another."""
        return run_wrong(self.job, self.futures, ready, self.start, self.setting, truths)


def look_ahead(
    job: Job,
    begin: Begin,
    policies: Sequence[Policy],
    *,
    pools: Sequence[PoolBill] = (),
    progress: Progress | None = None,
) -> JobPlan:
    """Plan a job with the first of these policies, next to the others, from where it would begin."""
    report, steps = progress or (lambda done, total: None), len(policies) + 3
    drawn = Drawn.of(job, begin)
    report(1, steps)
    chosen = drawn.prepared(policies[0])
    outlooks, needing = list[Outlook](), 0.0
    for done, policy in enumerate(policies):
        runs = drawn.run(drawn.prepared(policy) if outlooks else chosen)
        if not outlooks:
            needing = float(np.mean(column(runs, "on_demand_gpu_hours") > 0.0))
        outlooks.append(Outlook(label(policy), outcomes(runs), outcomes(_from_history(job, begin, policy))))
        report(done + 2, steps)
    # The clairvoyant of a wide job takes longest, so that its progress is reported start by start.
    solved = FUTURES + RECENT_STARTS
    known, spare = _clairvoyant(
        drawn, begin, lambda done: report((steps - 2) * solved + done, steps * solved)
    )
    report(steps, steps)
    here, history = InOnePool(job, begin.place, begin.neighbours), outlooks[0].history
    assert history is not None
    first = _first(drawn, chosen[0])
    return JobPlan(
        job=job,
        market=begin.market.source,
        pool=begin.pool,
        policy=label(policies[0]),
        outlooks=(*outlooks, known),
        pools=tuple(pools) or (PoolBill(begin.pool, history.cost_usd.p50),),
        first=first,
        first_gpus=(first.spot_gpus, first.on_demand_gpus),
        gpus=_held(drawn, chosen[:SHOWN_FUTURES]),
        assumptions=(
            *_without_checkpoints(drawn, policies[0], outlooks[0]),
            *assumptions.in_one_pool(job, begin, history.runs, needing),
        ),
        clairvoyant_spare_usd=spare,
        begin_slot=begin.slot,
        begin_utc=begin.place.time(begin.slot),
        by_deadline=against_deadline(here, policies[0]),
        by_width=against_width(here, policies[0]),
        wrong_work=if_work_is_wrong([job], FUTURES, lambda truths: drawn.run_wrong(chosen, truths)),
    )


def best_case(job: Job, begin: Begin) -> Outlook:
    """Return what the clairvoyant would pay from where a job would begin."""
    return _clairvoyant(Drawn.of(job, begin), begin, lambda done: None)[0]


def without_cap(job: Job, begin: Begin, policy: Policy) -> Outcomes:
    """Return how a policy would do over simulated futures if the job's money did not run out."""
    drawn = Drawn.of(dataclasses.replace(job, max_cost_usd=None), begin)
    return outcomes(drawn.run(drawn.prepared(policy)))


def recent_starts(job: Job, policy: Policy, slot_hours: float) -> int:
    """Return from how many recent starts a policy is run: fewer, where each of them must be solved anew."""
    inner = batch.innermost(policy)
    if not isinstance(inner, ForeseeingPolicy):
        return RECENT_STARTS
    affordable = int(RECENT_EFFORT / inner.effort(job, slot_hours))
    return min(RECENT_STARTS, max(FEWEST_STARTS, affordable))


def _from_history(job: Job, begin: Begin, policy: Policy) -> Sequence[Run]:
    # Starts lie in the recent part, but what is known at each is the whole past before it.
    where, window = begin.recent(job), begin.recent_window(job)
    place = where.place
    first = len(place) - len(window)
    count = recent_starts(job, policy, place.slot_hours)
    starts = [first + start for start in Starts(count).of(job, window)]
    setting = Setting(neighbours=where.neighbours)
    acting = policy_runs.guarded(policy, job)
    # Simulated futures have loaded its machine code anyway.
    if batch.can_compile(acting, place):
        return batch.run_many(job, place, acting, starts, name=label(policy), setting=setting)
    return policy_runs.run_many(job, place, policy, starts, name=label(policy), setting=setting)


def _clairvoyant(drawn: Drawn, begin: Begin, report: Callable[[int], None]) -> tuple[Outlook, float | None]:
    """Return what the clairvoyant would pay, and what the best plan could gain on average."""
    runs, spares, window = list[Run](), list[float](), begin.recent_window(drawn.job)
    starts = Starts(RECENT_STARTS).of(drawn.job, window)
    among = FUTURES + len(starts)
    for future in drawn.futures:
        (run,), spare = policy_runs.run_yardstick(drawn.job, future, [drawn.start], among=among)
        runs, spares = [*runs, run], [*spares, *spare]
        report(len(runs))
    past, _ = policy_runs.run_yardstick(
        drawn.job, window, starts, among=among, tell=lambda done: report(FUTURES + done)
    )
    spared = float(np.mean(spares)) if spares else None
    return Outlook(CLAIRVOYANT, outcomes(runs), outcomes(past)), spared


def _first(drawn: Drawn, ready: Policy) -> Allocation:
    """Return what is decided in the first slot, which is the same in all futures."""
    future = drawn.futures[0]
    now = plain.played(future, drawn.start, drawn.setting).at(0)
    return decision_of(ready, look(drawn.job, now, JobState(), 0, future.slot_hours))


def _held(drawn: Drawn, ready: Sequence[Policy]) -> tuple[HeldAt, ...]:
    """Run as many futures slot by slot as there are policies, and return what is held."""
    runs = [
        plain.run(drawn.job, future, acting, start=drawn.start, setting=drawn.setting)
        for future, acting in zip(drawn.futures, ready, strict=False)
    ]
    return held_over_time(drawn.job, drawn.futures[0].slot_hours, runs)


def _without_checkpoints(drawn: Drawn, policy: Policy, chosen: Outlook) -> tuple[str, ...]:
    """Say first what it means that a job has no checkpoints, and what one would save."""
    if not math.isinf(drawn.job.checkpoint_hours):
        return ()
    safer = drawn._replace(job=dataclasses.replace(drawn.job, checkpoint_hours=TRIED_CHECKPOINT_HOURS))
    kept = outcomes(safer.run(safer.prepared(policy)))
    mean, saved = chosen.futures.mean_cost_usd, chosen.futures.mean_cost_usd - kept.mean_cost_usd
    before, after = f"{chosen.futures.on_time_share:.0%}", f"{kept.on_time_share:.0%}"
    on_time = f"{after} of the simulated futures on time" + (f" instead of {before}" * (after != before))
    less = f"save {saved:.2f} USD of {mean:.2f} USD" if saved > 0 else "save nothing"
    return (
        "the job has no checkpoints, because its file has no 'checkpoint:': when a worker is lost, or the "
        "workers change, all work since the attempt began is lost; a checkpoint every "
        f"{TRIED_CHECKPOINT_HOURS * 60:g} min would on average {less}, with {on_time}",
        "the clairvoyant's figure is a bound that this job cannot reach: it is computed as if work could "
        "be saved just before each loss",
    )
