"""Plan of a job: its probable cost and end, from runs of several policies over the same futures.

A job that stays in its pool is also run from recent starts of the real market. For a job that may move, each
policy that does not move is tried in the best pools to stay in.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from slacktide.core.types import Allocation, Job, JobState
from slacktide.policies.base import ForeseeingPolicy, roams
from slacktide.policies.base import policies as register
from slacktide.policies.deadline_guard import label
from slacktide.policies.view import Policy, decision_of, look
from slacktide.results.plan import JobPlan, Outcomes, Outlook, PoolBill
from slacktide.results.run import CLAIRVOYANT, OVER_POOLS, Run, column
from slacktide.simulation import batch
from slacktide.simulation.batch import run_many, run_yardstick
from slacktide.simulation.compare import Progress, Starts
from slacktide.simulation.plan import assumptions
from slacktide.simulation.plan.futures import PoolFutures
from slacktide.simulation.plan.outcomes import TriedPolicy, held_over_time, moving, outcomes
from slacktide.simulation.plan.planned_job import PlannedJob
from slacktide.simulation.plan.what_if import against_deadline, against_width, if_work_is_wrong
from slacktide.simulation.playback import Playback, Setting

RECENT_STARTS, FEWEST_STARTS = 24, 6
RECENT_EFFORT = 7e8
"""What solving for all recent starts may take, in values to compute: a second or two of CPU.
A policy that takes more is run from fewer starts, but at least from FEWEST_STARTS."""
TRIED_CHECKPOINT_HOURS = 10 / 60
"""The interval that is tried to say what a checkpoint would save a job that has none."""
SHOWN_FUTURES = 12  # futures that are run slot by slot, to show the GPUs held over time
RANKER = "uniform-progress"
"""The quick policy by which pools to stay in are ranked; the others are tried in the best of them."""
BEST_POOLS = 2


def look_ahead(
    planned: PlannedJob,
    policies: Sequence[Policy],
    *,
    bills: Sequence[PoolBill] = (),
    progress: Progress | None = None,
) -> JobPlan:
    """Plan a job with the first policy, and compare it with the others; `bills` has its cost by pool."""
    different = {label(one): one for one in policies}.values()
    report, steps = progress or (lambda done, total: None), len(different) + 3
    futures, options = planned.draw(), planned.options
    ranked = () if options.stays else _staying(planned, futures, register.make(RANKER), options.names)
    report(1, steps)
    best = [one.pool for one in sorted(ranked, key=lambda one: one.cost)[:BEST_POOLS]]
    tried = list[TriedPolicy]()
    for done, policy in enumerate(different):
        tried.append(_try(planned, futures, policy, best))
        report(done + 2, steps)
    # The clairvoyant takes longest, so its progress is reported run by run.
    known, spare_usd = _clairvoyant(
        planned, futures, lambda done, of: report((steps - 2) * of + done, steps * of)
    )
    first_tried, chosen = tried[0], policies[0]
    shown = _shown(first_tried, futures)
    pool, first, first_gpus = _first(first_tried, futures, shown[0])
    made = JobPlan(
        job=planned.job,
        market=planned.start.market.source,
        pool=pool,
        policy=first_tried.policy,
        outlooks=tuple(one.outlook() for one in (*tried, known)),
        pools=tuple(bills) or _bill(first_tried),
        first=first,
        first_gpus=first_gpus,
        gpus=held_over_time(planned.job, options.slot_hours, shown),
        assumptions=_assumptions(first_tried, futures, chosen),
        moving=None if options.stays else moving(options, tried, ranked, known),
        clairvoyant_spare_usd=spare_usd,
        begin_slot=planned.start.slot,
        begin_utc=planned.start.place.time(planned.start.slot),
        by_deadline=against_deadline(first_tried.planned, chosen),
        by_width=against_width(first_tried.planned, chosen),
        wrong_work=if_work_is_wrong(
            first_tried.planned.jobs,
            planned.paths,
            lambda truths: first_tried.planned.run(futures, first_tried.ready, truths),
        ),
    )
    report(steps, steps)
    return made


def best_case(planned: PlannedJob) -> Outlook:
    return _clairvoyant(planned, planned.draw(), lambda done, of: None)[0].outlook()


def without_cap(planned: PlannedJob, policy: Policy) -> Outcomes:
    """Return how a policy would do over futures if the money of a job in one pool did not run out."""
    free = PlannedJob.in_pool(dataclasses.replace(planned.job, max_cost_usd=None), planned.start)
    futures = free.draw()
    return outcomes(free.run(futures, free.prepared(futures, policy)))


def _try(planned: PlannedJob, futures: PoolFutures, policy: Policy, best_pools: Sequence[str]) -> TriedPolicy:
    """Run a policy over the futures; one that stays though the job may move, in the best of some pools."""
    if not planned.options.stays and not roams(policy):
        return min(_staying(planned, futures, policy, best_pools), key=lambda one: one.cost)
    ready = planned.prepared(futures, policy)
    runs = planned.run(futures, ready)
    past = _from_history(planned, policy) if planned.options.stays else None
    return TriedPolicy(planned, label(policy), runs, ready, past)


def _staying(
    planned: PlannedJob, futures: PoolFutures, policy: Policy, pools: Sequence[str]
) -> list[TriedPolicy]:
    """Run a policy that stays in each of some pools, over all futures."""
    tried = []
    for name in pools:
        staying = planned._replace(stays_in=name)
        ready = staying.prepared(futures, policy)
        tried.append(TriedPolicy(staying, label(policy), staying.run(futures, ready), ready))
    return tried


def _shown(tried: TriedPolicy, futures: PoolFutures) -> Sequence[Run]:
    """Return runs of a policy that have kept their slots, as those that move do anyway."""
    planned = tried.planned
    return tried.runs if planned.moves else planned.run_slots(futures, tried.ready[:SHOWN_FUTURES])


def _first(tried: TriedPolicy, futures: PoolFutures, run: Run) -> tuple[str, Allocation, tuple[int, int]]:
    """Return the pool, the decision and the GPUs of the first slot, which is the same in all futures.

    In one pool the GPUs are those that the policy wants if the work in the job's file is exact.
    """
    planned, record = tried.planned, run.slots[0]
    if not planned.options.stays:
        gpus = record.spot_gpus, record.on_demand_gpus
        return record.lived.stretch.pool, record.wanted, gpus
    (pool,) = futures.options[0].pools
    now = Playback(pool, futures.start, planned.setting).at(0)
    wanted = decision_of(tried.ready[0], look(planned.job, now, JobState(), 0, pool.slot_hours))
    return pool.name, wanted, (wanted.spot_gpus, wanted.on_demand_gpus)


def _bill(tried: TriedPolicy) -> tuple[PoolBill, ...]:
    """Return what a job in one pool would have paid there; nothing where it may move."""
    past = tried.outlook().history
    return () if past is None else (PoolBill(tried.planned.start.pool, past.cost_usd.p50),)


def _assumptions(tried: TriedPolicy, futures: PoolFutures, policy: Policy) -> tuple[str, ...]:
    """Return what a plan assumes, given how the chosen policy was tried."""
    if tried.history is None:
        return assumptions.over_pools(tried.planned, futures)
    needing = float(np.mean(column(tried.runs, "on_demand_gpu_hours") > 0.0))
    sentences = assumptions.in_one_pool(tried.planned, futures, len(tried.history), needing)
    return *_without_checkpoints(tried, futures, policy), *sentences


def _clairvoyant(
    planned: PlannedJob, futures: PoolFutures, report: Callable[[int, int], None]
) -> tuple[TriedPolicy, float | None]:
    """Run the clairvoyant; also return what the best plan could gain over it on average, if anything."""
    runs, spares, job = list[Run](), list[float](), planned.job
    if not planned.options.stays:
        for future in futures.options:
            runs.append(batch.run_optimum(future, futures.start))
            report(len(runs), len(futures.options))
        return TriedPolicy(planned, OVER_POOLS, runs), None
    window = planned.start.recent_window(job)
    starts = Starts(RECENT_STARTS).of(job, window)
    among = len(futures.options) + len(starts)
    for future in futures.options:
        (run,), spare = run_yardstick(job, future.pools[0], [futures.start], among=among)
        runs, spares = [*runs, run], [*spares, *spare]
        report(len(runs), among)
    past, _ = run_yardstick(
        job, window, starts, among=among, tell=lambda done: report(len(runs) + done, among)
    )
    return TriedPolicy(planned, CLAIRVOYANT, runs, (), past), float(np.mean(spares)) if spares else None


def recent_starts(job: Job, policy: Policy, slot_hours: float) -> int:
    """Return from how many recent starts a policy is run: fewer if it has to solve for each of them."""
    inner = batch.innermost(policy)
    if not isinstance(inner, ForeseeingPolicy):
        return RECENT_STARTS
    affordable = int(RECENT_EFFORT / inner.effort(job, slot_hours))
    return min(RECENT_STARTS, max(FEWEST_STARTS, affordable))


def _from_history(planned: PlannedJob, policy: Policy) -> Sequence[Run]:
    job, begin = planned.job, planned.start
    # Starts lie in the recent part, but at each of them the whole past before it is known.
    where, window = begin.recent(job), begin.recent_window(job)
    place = where.place
    first = len(place) - len(window)
    count = recent_starts(job, policy, place.slot_hours)
    starts = [first + start for start in Starts(count).of(job, window)]
    setting = Setting(neighbours=where.neighbours)
    # Never `few`: compiled code is already loaded, because the simulated futures needed it.
    return run_many(job, place, policy, starts, name=label(policy), setting=setting, few=False)


def _without_checkpoints(tried: TriedPolicy, futures: PoolFutures, policy: Policy) -> tuple[str, ...]:
    """Say what it means that a job has no checkpoints, and what they would save."""
    job = tried.planned.job
    if not math.isinf(job.checkpoint_hours):
        return ()
    saving = dataclasses.replace(job, checkpoint_hours=TRIED_CHECKPOINT_HOURS)
    safer = PlannedJob.in_pool(saving, tried.planned.start)
    now, kept = outcomes(tried.runs), outcomes(safer.run(futures, safer.prepared(futures, policy)))
    mean, saved = now.mean_cost_usd, now.mean_cost_usd - kept.mean_cost_usd
    before, after = f"{now.on_time_share:.0%}", f"{kept.on_time_share:.0%}"
    on_time = f"{after} of the simulated futures on time" + (f" instead of {before}" * (after != before))
    less = f"save {saved:.2f} USD of {mean:.2f} USD" if saved > 0 else "save nothing"
    return (
        "the job has no checkpoints, because its file has no 'checkpoint:': when a worker is lost, or the "
        "workers change, all work since the attempt began is lost; a checkpoint every "
        f"{TRIED_CHECKPOINT_HOURS * 60:g} min would on average {less}, with {on_time}",
        "the clairvoyant's figure is a bound that this job cannot reach: it is computed as if work could "
        "be saved just before each loss",
    )
