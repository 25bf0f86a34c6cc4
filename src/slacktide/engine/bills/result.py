"""The run of a live job as the result that all reports read, and the runs that it is compared with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from slacktide.core.errors import InputError, SlacktideError
from slacktide.core.types import Job, Reason
from slacktide.engine.bills.bill import on_demand_alone
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Decided, Ended, Event, Lived, Preempted, Restarted, Submitted
from slacktide.market.base import Pool
from slacktide.physics.ledger import Priced
from slacktide.results.run import CLAIRVOYANT, ON_DEMAND_ALONE, Decision, Lap, Run, RunResult, result_of
from slacktide.simulation.policy_runs import run_in_detail


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
    """Return how on demand alone and the clairvoyant would have gone, as far as the market reaches.

    `job` is the context's as it was measured to be.

    Both begin with the slot in which the job was submitted, and no market reaches to the end of a job
    without a deadline.
    """
    found = {ON_DEMAND_ALONE: on_demand_alone(context, job), CLAIRVOYANT: _clairvoyant(context, job)}
    named = [dataclasses.replace(run, policy=name) for name, run in found.items() if run is not None]
    return [result_of(run, context.job, context.at(0).pool) for run in named]


def _clairvoyant(context: JobContext, job: Job) -> Run | None:
    if math.isinf(job.deadline_hours) or context.ground is not None:  # the bill has the one over pools
        return None
    try:
        return run_in_detail(job, context.pool, None, context.start_slot, name=CLAIRVOYANT)
    except SlacktideError:
        return None


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
            found[-1] = _lived(found[-1], event, submitted)
    return found


def _lived(decision: Decision, event: Lived, submitted: Submitted) -> Decision:
    """Return a decision with one more stretch that came of it."""
    before = decision.laps[-1].after_gpu_hours if decision.laps else decision.done_gpu_hours
    lap = Lap(_own(event.priced, submitted), before, event.state.progress_gpu_hours)
    return decision._replace(laps=(*decision.laps, lap))


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


def _own(one: Priced, submitted: Submitted) -> Priced:
    """Return a stretch whose hours and slots count from when its job began."""
    stretch, began = one.stretch, submitted.at_hours
    return one._replace(
        stretch=stretch._replace(
            slot=stretch.slot - submitted.start_slot,
            from_hours=stretch.from_hours - began,
            to_hours=stretch.to_hours - began,
        )
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
