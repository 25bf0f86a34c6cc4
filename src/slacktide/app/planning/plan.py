"""Plans: estimates what a job would cost and when it would be done, before anything is rented.

A plan also shows what earlier runs of the same name measured.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slacktide.app.jobs.feasible import OVER_POOLS, check_feasible, check_in_time, pool_options
from slacktide.app.jobs.submission import market_options
from slacktide.app.markets.market import DEFAULT_MARKET, MarketSpec, as_market, with_age, with_spot_seen
from slacktide.app.task_requests import JobTask, PlanRequest, parse_policy
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.engine.bills.bill import measured_pace
from slacktide.engine.job.journal_market import standing
from slacktide.engine.job.placement import cheapest, pool_bills, stand, start_of, wanted_slot
from slacktide.files.job import submitted_file
from slacktide.journal.events import Ended, PaceRevised, Record, SiteOpened
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import Store
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.sqlite import read_if_intact
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import ANY_GPU
from slacktide.market.spec import feed_path, is_feed
from slacktide.physics.pace import is_measured, mean_factor, whole_work
from slacktide.policies.deadline_guard import label
from slacktide.policies.selection.auto_policy import resolve_policy
from slacktide.policies.selection.policy_set import AUTO, DEFAULT_POLICIES
from slacktide.policies.view import Policy
from slacktide.results.plan import JobPlan, LastRun, LastRuns, Outlook, PoolBill, WidthMeasured
from slacktide.simulation.pool_options import PoolOptions

if TYPE_CHECKING:
    from slacktide.simulation.compare import Progress
    from slacktide.simulation.plan.planned_job import PlannedJob, PlanStart

NEXT_TO_MOVING: tuple[str, ...] = ("stochastic-horizon", "on-demand", OVER_POOLS)
"""The policies that a plan over pools shows next to the chosen one."""


def make_plan(task: JobTask[PlanRequest], *, progress: Progress | None = None) -> JobPlan:
    """Plan a job file; raises as `plan` does."""
    file = task.file
    task, start = _as_submitted(task)
    result = plan(
        file.job,
        _market_of(task),
        _policy_of(task),
        gpu=file.gpu,
        pool=task.market.pool,
        start=start,
        checkpoint_takes_hours=file.checkpoint_takes_hours,
        progress=progress,
    )
    before = None if task.journal is None else last_runs(task.journal, file.job.name)
    return replace(result, last_runs=before)


def _policy_of(task: JobTask[PlanRequest]) -> Spec:
    chosen = parse_policy(task.request.policy)
    return task.file.policy if chosen is None else chosen


def _market_of(task: JobTask[PlanRequest]) -> Market:
    """Read the market of a plan, with the spot that the journal saw and a warning about old prices."""
    market = with_spot_seen(task.open_market(), task.journal)
    named = task.market.named(task.file.market) or ""
    return with_age(market, feed_path(named), datetime.now(UTC)) if is_feed(named) else market


def plan(
    job: Job,
    market: Market | Pool | str = DEFAULT_MARKET,
    policy: Spec | Policy = AUTO,
    *,
    others: Sequence[Spec | Policy] | None = None,
    gpu: str = ANY_GPU,
    pool: str | None = None,
    slot_hours: float | None = None,
    start: int | PlannedSlot | None = None,
    checkpoint_takes_hours: float | None = None,
    progress: Progress | None = None,
) -> JobPlan:
    """Estimate what a job would cost and when it would be done, before anyone pays.

    Futures are drawn from a model of the market's past, and shown next to runs from recent starts. Without
    `pool`, the plan is for the pool that a run would choose; without `start`, for the slot in which a run
    would begin. What the market does afterwards is not known to the plan. `others` are policies to show next
    to the chosen one. The advice on how often to save needs to know how long a checkpoint takes; None: it is
    assumed.

    A job that names pools, or one with a policy over pools, may move unless `pool` is given; its plan says
    where to start and what moving may save, and `auto` is `roaming-horizon`. Raises InfeasibleError when the
    job cannot be done in time, or not for its maximum cost.
    """
    # What only plans use is imported here: `slacktide run` loads this module to check a job, too.
    from slacktide.simulation.plan.look_ahead import look_ahead
    from slacktide.simulation.plan.planned_job import PlannedJob
    from slacktide.simulation.plan.what_if import advise

    opened = as_market(market, slot_hours)
    begin = start if isinstance(start, PlannedSlot) else at_slot(start)
    moving = resolve_policy(OVER_POOLS if policy == AUTO and job.pools else policy, key=job.name)
    options = pool_options(job, gpu, opened, [moving], pool)
    if options is not None and len(options.pools) > 1:
        rest = NEXT_TO_MOVING if others is None else others
        return _over_pools(options, opened, moving, rest, begin, progress)
    if options is not None:  # as it is in the only pool that it may use
        job, pool = options.places.jobs[0], options.pools[0].name
    check_feasible(job)
    _check_deadline(job)
    specs = (policy, *(DEFAULT_POLICIES if others is None else others))
    policies = {label(policy): policy for policy in (resolve_policy(spec, key=job.name) for spec in specs)}
    here, bills = _begin(job, opened, pool, begin)
    medians = [PoolBill(name, float(np.median(usd))) for name, usd in bills.items()]
    planned = PlannedJob.in_pool(job, here)
    medians.sort(key=lambda bill: (bill.pool != here.pool, bill.history_p50_cost_usd))
    result = look_ahead(planned, list(policies.values()), bills=medians, progress=progress)
    _check_affordable(planned, next(iter(policies.values())), result.outlooks[-1])
    advice = advise(job, here.place, result.gpus, checkpoint_takes_hours)
    return replace(result, checkpoints=advice)


def _over_pools(
    options: PoolOptions,
    market: Market,
    policy: Policy,
    others: Sequence[Spec | Policy],
    start: PlannedSlot,
    progress: Progress | None,
) -> JobPlan:
    """Plan a job that may move among at least two pools."""
    from slacktide.simulation.plan.look_ahead import look_ahead
    from slacktide.simulation.plan.planned_job import PlannedJob, PlanStart, known_at

    job, first = options.job, options.pools[0]
    check_in_time(options.places.jobs)
    _check_deadline(job)
    slot = start.of(job, first)
    now = known_at(options, slot)
    if now is None:
        raise InputError(
            f"at least two pools of the job must be recorded in slot {slot} of {first.name}, "
            "got fewer; choose another --start, or one pool with --pool"
        )
    rest = [resolve_policy(other, key=job.name) for other in others]
    planned = PlannedJob.over_pools(PlanStart.at(market, first.name, slot), now)
    result = look_ahead(planned, (policy, *rest), progress=progress)
    limit, best = job.max_cost_usd, result.outlooks[-1].futures.cost_usd.p10
    if limit is not None and best > limit:
        raise InfeasibleError(
            f"max_cost must allow at least {best:.2f} USD, which is what perfect foresight would pay over "
            f"pools on a good day (p10), got {limit:.2f} USD"
        )
    return result


def _check_deadline(job: Job) -> None:
    if math.isinf(job.deadline_hours):
        raise InputError("a job to plan must have a deadline, got none; add `deadline:` to its file")


def _begin(
    job: Job, market: Market, pool: str | None, start: PlannedSlot
) -> tuple[PlanStart, dict[str, list[float]]]:
    """Return where a job would begin, and the bills of past runs by pool; none if the pool is given."""
    from slacktide.simulation.plan.planned_job import PlanStart

    bills = (
        {} if pool is not None else pool_bills(lambda _: job, market, lambda other: start.slot(job, other))
    )
    place = market.pool(pool) if pool is not None else cheapest(market, bills)
    return PlanStart.at(market, place.name, start.of(job, place)), bills


def check_plan(task: JobTask[PlanRequest]) -> None:
    """Raise InfeasibleError if a plan of this job would be refused, without computing all of it.

    For a job that is run without being planned first.
    """
    job = task.file.job
    check_feasible(job)
    if job.max_cost_usd is None or math.isinf(job.deadline_hours):
        return  # a job without a deadline is part of a fleet, which decides what it can pay for
    from slacktide.simulation.plan.look_ahead import best_case
    from slacktide.simulation.plan.planned_job import PlannedJob

    task, start = _as_submitted(task)
    policy = resolve_policy(_policy_of(task), key=job.name)
    begin, _ = _begin(job, task.open_market(), task.market.pool, start)
    planned = PlannedJob.in_pool(job, begin)
    _check_affordable(planned, policy, best_case(planned))


def _check_affordable(planned: PlannedJob, policy: Policy, best: Outlook) -> None:
    """Raise InfeasibleError when not even perfect foresight could pay for the job on a good day.

    What the policy would need is computed without max_cost, which would otherwise limit it.
    """
    limit = planned.job.max_cost_usd
    if limit is None:
        return
    from slacktide.simulation.plan.look_ahead import without_cap

    assert best.history is not None
    least = min(best.futures.cost_usd.p10, best.history.cost_usd.p10)
    if least > limit:
        needed = without_cap(planned, policy).cost_usd.p90
        raise InfeasibleError(
            f"max_cost must allow at least {least:.2f} USD, which is what perfect foresight would "
            f"pay on a good day (p10), got {limit:.2f} USD; {label(policy)} would need "
            f"{needed:.2f} USD (p90) if there were no max_cost"
        )


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """The slot of each pool in which a job would begin."""

    slot: Callable[[Job, Pool], int | None]  # None: as late as leaves the job time, as a run does
    checked: Callable[[Job, Pool, int | None], int] = start_of
    """Returns the slot of a job, if the market reaches from it to the deadline; else raises InputError."""

    def of(self, job: Job, pool: Pool) -> int:
        """Return the slot; raises InputError where the job cannot begin in it."""
        return self.checked(job, pool, self.slot(job, pool))


def at_slot(start: int | None) -> PlannedSlot:
    """Begin in the same slot in every pool; None: as late as leaves the job time."""
    return PlannedSlot(lambda job, pool: start)


def _as_submitted(task: JobTask[PlanRequest]) -> tuple[JobTask[PlanRequest], PlannedSlot]:
    """Return a task on the market that its job would be on if submitted now, and where it would begin.

    A job begins in the slot that was given, else at the present of its market, else where a run would. A
    feed's present is its last row. The present of a recorded market is the hour that the journal's controller
    has reached with the jobs that run on it: later rows are not known yet.
    """
    market, written, journal = task.market, task.file.market, task.journal
    present = None if market.start is not None and not market.shared else _present(market, written, journal)
    if present is not None:  # named as the journal's jobs name it
        options = json.loads(present[0].market)
        market = replace(market, source=options.pop("spec"), **options)
        task = replace(task, market=market)
    if is_feed(market.named(written) or ""):
        return task, PlannedSlot(lambda job, pool: len(pool) - 1, lambda job, pool, slot: len(pool) - 1)
    if present is None:
        return task, PlannedSlot(lambda job, pool: wanted_slot(job, pool, market.start, shared=market.shared))
    site, hours = present
    return task, PlannedSlot(
        lambda job, pool: standing(site, pool, hours).slot,
        lambda job, pool, slot: stand(job, pool, site, hours).slot,
    )


def _present(
    market: MarketSpec, written: str | None, journal: Path | None
) -> tuple[SiteOpened, float] | None:
    """Return the journal's market and the hour on its clock, if a controller runs jobs on this same market.

    The journal is only read. If there is none, or a damaged one, the result is None.
    """
    state = read_if_intact(journal, read_state)
    if journal is None or state is None or state.site is None or not is_held(journal):
        return None
    try:
        market_options(market, written, state.site)
    except InputError:  # it is on another market
        return None
    return (state.site, state.now_hours) if state.active or state.fleets else None


MOST_RUNS = 20  # only the last runs are read: older ones say little about the job today


def last_runs(journal: Path, name: str) -> LastRuns | None:
    """Return what runs of this name measured; None if there is no such run, or no readable journal.

    The journal is only read. It need not exist, and a damaged one does not stop a plan: `slacktide jobs`
    reports what is wrong with it.
    """

    def read(store: Store) -> LastRuns | None:
        runs = _measured(read_state(store), name)
        return _summed_up(runs, store.read(job=runs[-1][0].job)) if runs else None

    return read_if_intact(journal, read)


def _summed_up(runs: list[tuple[JobRecord, Job]], records: Iterable[Record]) -> LastRuns:
    """Sum up runs, oldest first, and the events of the last one."""
    works = [
        whole_work(record.progress.pace, job.work_gpu_hours)
        for record, job in runs
        if record.progress.pace is not None
    ]
    return LastRuns(len(runs), sum(works) / len(works), _last(*runs[-1], records))


def _measured(state: JournalState, name: str) -> list[tuple[JobRecord, Job]]:
    """Return the last runs of this name that succeeded and were measured, oldest first, with their jobs."""
    alike = re.compile(rf"{re.escape(name)}(-[0-9]+)?")
    alike_jobs = state.jobs.walk([job for job in state.jobs if alike.fullmatch(job)])
    named = [record for record in alike_jobs if _was_measured(record)]
    read = ((record, _file_of(record)) for record in named[-MOST_RUNS:])
    # A job that is called NAME-2 looks like the second run of NAME; its file says which it is.
    return [(record, job) for record, job in read if job is not None and job.name == name]


def _was_measured(record: JobRecord) -> bool:
    """Whether a run was done by real workers that reported: a dry run takes the file's word for it."""
    done, pace = record.ended is not None and record.ended.status == "succeeded", measured_pace(record)
    return done and record.holding.held_attempt > 0 and pace is not None and is_measured(pace)


def _file_of(record: JobRecord) -> Job | None:
    """Return the job that a record's file describes; None if the file cannot be read any more."""
    try:
        return submitted_file(record.submitted).job
    except InputError:
        return None


def _last(job_record: JobRecord, job: Job, records: Iterable[Record]) -> LastRun:
    hours: dict[int, float] = defaultdict(float)
    ended, pace = datetime.fromtimestamp(0, UTC), job_record.progress.pace
    assert pace is not None
    for record in records:
        if isinstance(record.event, PaceRevised):
            hours[record.event.gpus] += record.event.measured_hours
        elif isinstance(record.event, Ended):
            ended = record.time_utc
    return LastRun(
        job=job_record.job,
        ended_utc=ended,
        work_gpu_hours=whole_work(pace, job.work_gpu_hours),
        work_spread_share=math.expm1(math.sqrt(max(pace.variance, 0.0))),
        file_work_gpu_hours=job.work_gpu_hours,
        widths=tuple(
            WidthMeasured(gpus, seen, mean_factor(pace, gpus)) for gpus, seen in sorted(hours.items())
        ),
    )
