"""The bill of a live job, its run as reports show it, and what other policies would have paid."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from slacktide.core.errors import InputError, SlacktideError
from slacktide.core.types import Job, Reason
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Decided, Ended, Event, Lived, Preempted, Restarted, Submitted
from slacktide.journal.state.journal_state import JobRecord
from slacktide.market.base import Pool
from slacktide.market.pools.places import UsablePool, job_at
from slacktide.physics.ledger import Priced
from slacktide.physics.pace import Pace, mean_restart, whole_work
from slacktide.physics.truth import at_pace
from slacktide.policies.base import policies
from slacktide.results.bill import Bill
from slacktide.results.run import CLAIRVOYANT, ON_DEMAND_ALONE, Decision, Lap, Run, RunResult, result_of
from slacktide.simulation import plain
from slacktide.simulation.batch import run_in_detail
from slacktide.solvers.clairvoyant.clairvoyant import Plan, clairvoyant
from slacktide.solvers.pools.optimum import Schedule, optimum

T = TypeVar("T")

AS_SAID = 1e-9  # a pace whose logarithm is nearer to 0 than this is that of the file


def bill(record: JobRecord, context: JobContext) -> Bill:
    """Return the bill of a job, ended or not, with what other policies would have paid."""
    job = as_measured(record, context.job)
    alone = on_demand_alone(context, job)
    if context.may_move:
        best: Plan | Schedule | None = _clairvoyant_over_pools(context, job)
    else:
        best = _as_far(job, lambda: clairvoyant(job, context.pool, context.start_slot))
    return dataclasses.replace(
        own_bill(record, context.job),
        on_demand_alone_usd=None if alone is None else alone.cost_usd,
        clairvoyant_usd=None if best is None else best.cost_usd,
        clairvoyant_spare_usd=best.spare_usd if isinstance(best, Plan) else None,
    )


def own_bill(record: JobRecord, job: Job) -> Bill:
    """Return a job's bill without comparisons, for which its market is not needed."""
    finish = math.inf if record.ended is None else record.ended.finish_hours
    paid, pace = record.money.bill, measured_pace(record)
    return Bill(
        job=record.job,
        status=record.status,
        cost_usd=paid.cost_usd,
        spot_usd=paid.spot_usd,
        on_demand_usd=paid.on_demand_usd,
        spot_gpu_hours=paid.spot_gpu_hours,
        on_demand_gpu_hours=paid.on_demand_gpu_hours,
        work_gpu_hours=job.work_gpu_hours,
        done_gpu_hours=record.progress.state.progress_gpu_hours,
        finish_hours=finish,
        deadline_hours=job.deadline_hours,
        on_time=math.isfinite(finish) and job.on_time(finish),
        preemptions=record.holding.preemptions,
        restarts=record.restarts,
        failures=record.progress.failures,
        lost_gpu_hours=record.progress.lost_gpu_hours,
        on_demand_alone_usd=None,
        clairvoyant_usd=None,
        progress_estimated=record.progress.estimated,
        measured_work_gpu_hours=None if pace is None else whole_work(pace, job.work_gpu_hours),
        pools=tuple(station.pool for station in record.holding.stations) if record.submitted.pools else (),
        moves=record.holding.moves,
        move_usd=paid.move_usd,
    )


def measured_pace(record: JobRecord) -> Pace | None:
    """Return the pace that a job was measured to have; None where it reported nothing."""
    pace = record.progress.pace
    return None if pace is None or record.progress.estimated or not 0.0 < pace.hours < math.inf else pace


def as_measured(record: JobRecord, job: Job) -> Job:
    """Return a job at its measured pace, for policies to be compared on it; unmeasured, as its file says.

    Its work stays that of the file, because progress is reported in shares of it; its speedups change.
    """
    pace = measured_pace(record)
    if pace is None or max(abs(pace.mean), abs(pace.slope), pace.restarts) < AS_SAID:
        return job
    restart, shrink = mean_restart(pace, job.restart_hours), job.shrink_hours
    if shrink is not None and job.restart_hours > 0:
        shrink *= restart / job.restart_hours
    paced = at_pace(job, math.exp(pace.mean), pace.slope / math.log(2.0))
    return dataclasses.replace(paced, restart_hours=restart, shrink_hours=shrink)


def on_demand_alone(context: JobContext, job: Job) -> Run | None:
    """Return the run of the whole work on on-demand GPUs, in the pool where that is cheapest.

    `job` is the context's job at its measured pace. None when the market does not reach that far. The
    maximum cost is ignored: the question is what the work costs, not where it would be stopped.
    """
    job, policy = dataclasses.replace(job, max_cost_usd=None), policies.make("on-demand")
    if not context.may_move:
        return _as_far(job, lambda: plain.run(job, context.pool, policy, start=context.start_slot))

    def cheapest() -> Run:
        runs = [
            plain.run(in_pool, there.pool, policy, start=there.own_slot(context.start_slot))
            for in_pool, there in _everywhere(context, job)
        ]
        return min(runs, key=lambda run: (not run.on_time, run.cost_usd))

    return _as_far(job, cheapest)


def _as_far(job: Job, find: Callable[[], T]) -> T | None:
    """Return what is found; None if the market does not reach that far, as for any job without a deadline."""
    if math.isinf(job.deadline_hours):
        return None
    try:
        return find()
    except SlacktideError:
        return None


def _everywhere(context: JobContext, job: Job) -> list[tuple[Job, JobContext]]:
    """Return a job at its measured pace in each pool that it may use."""
    found = []
    for at, in_pool in enumerate(context.pools.places.jobs):
        width = in_pool.widths[0]
        place = UsablePool("", in_pool.widths, context.job.work_hours(width) / in_pool.work_hours(width))
        found.append((job_at(job, place), context.at(at)))
    return found


def _clairvoyant_over_pools(context: JobContext, job: Job) -> Schedule | None:
    """Return the best schedule over all pools in hindsight; None where there is none."""
    jobs, contexts = zip(*_everywhere(context, job), strict=True)
    _, hours, usd, _ = context.pools.places
    pools = [there.pool for there in contexts]
    found = _as_far(job, lambda: optimum(jobs, pools, context.start_slot, hours, usd))
    return found if found is not None and math.isfinite(found.cost_usd) else None


def run_result(events: Iterable[Event], job: Job, pool: Pool, policy: str) -> RunResult:
    """Return what a job's events say of its run, ended or not; raises InputError when nothing was run yet."""
    kept = tuple(events)
    submitted = next(event for event in kept if isinstance(event, Submitted))
    ended = next((event for event in kept if isinstance(event, Ended)), None)
    began, origin = submitted.at_hours, submitted.origin_hours
    result = RunResult(
        name=submitted.job,
        job=job,
        policy=policy,
        pool=pool,
        start_slot=submitted.start_slot,
        origin_hours=0.0 if origin is None else origin - began,
        decisions=tuple(_decisions(kept, submitted)),
        restarts=tuple(hours - began for hours in _restarts(kept)),
        status=None if ended is None else ended.status,
        finish_hours=math.inf if ended is None else ended.finish_hours,
    )
    if not result.laps:
        raise InputError(
            f"a run of {submitted.job!r} must have started to be shown, but it has not run yet; "
            "run the job first"
        )
    return result


def yardsticks(context: JobContext, job: Job) -> list[RunResult]:
    """Return the runs of on demand alone and the clairvoyant, as far as the market reaches.

    `job` is the context's job at its measured pace. Both begin in the slot in which the job was submitted.
    """
    found = {ON_DEMAND_ALONE: on_demand_alone(context, job)}
    if not context.may_move:  # the bill has the clairvoyant over pools
        start = context.start_slot
        found[CLAIRVOYANT] = _as_far(
            job, lambda: run_in_detail(job, context.pool, None, start, name=CLAIRVOYANT)
        )
    named = [dataclasses.replace(run, policy=name) for name, run in found.items() if run is not None]
    return [result_of(run, context.job, context.at(0).pool) for run in named]


def _decisions(events: Iterable[Event], submitted: Submitted) -> list[Decision]:
    """Fold a job's events into decisions, each with the loss before it and the stretches after it."""
    found, lost = list[Decision](), (0, 0.0)
    for event in events:
        if isinstance(event, Preempted):
            lost = event.spot_before - event.spot_left, event.lost_gpu_hours
        elif isinstance(event, Decided):
            found.append(_decision(event, submitted, *lost))
            lost = 0, 0.0
        elif isinstance(event, Lived):
            last = found[-1]
            before = last.laps[-1].after_gpu_hours if last.laps else last.done_gpu_hours
            lap = Lap(_own(event.priced, submitted), before, event.state.progress_gpu_hours)
            found[-1] = last._replace(laps=(*last.laps, lap))
    return found


def _decision(event: Decided, submitted: Submitted, lost_gpus: int, lost_gpu_hours: float) -> Decision:
    return Decision(
        hours=event.at_hours - submitted.at_hours,
        slot=event.slot - submitted.start_slot,
        quote=event.quote,
        done_gpu_hours=event.state.progress_gpu_hours,
        wanted_spot_gpus=event.wanted_spot_gpus,
        wanted_on_demand_gpus=event.wanted_on_demand_gpus,
        spot_gpus=event.spot_gpus,
        on_demand_gpus=event.on_demand_gpus,
        reason=Reason(event.why, event.signals),
        lost_gpus=lost_gpus,
        lost_gpu_hours=lost_gpu_hours,
        ending=event.ending,
    )


def _own(priced: Priced, submitted: Submitted) -> Priced:
    """Return a stretch whose hours and slots count from when its job began."""
    stretch, began = priced.stretch, submitted.at_hours
    slot, hours = stretch.slot - submitted.start_slot, stretch.from_hours - began
    return priced._replace(
        stretch=stretch._replace(slot=slot, from_hours=hours, to_hours=stretch.to_hours - began)
    )


def _restarts(events: Iterable[Event]) -> list[float]:
    """Return when workers were started again, on the journal's clock: every new attempt but the first."""
    starts, attempt = list[float](), 0
    for event in events:
        if isinstance(event, Decided | Restarted):
            holds = isinstance(event, Restarted) or event.spot_gpus + event.on_demand_gpus > 0
            if holds and event.attempt != attempt:
                starts.append(event.at_hours)
            attempt = event.attempt
    return starts[1:]
