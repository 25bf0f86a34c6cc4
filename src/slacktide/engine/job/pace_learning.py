"""Learning a job's pace while it runs: from what its workers report, or from physics in a dry run."""

from __future__ import annotations

import math

from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.core.units import format_count
from slacktide.engine.changes import Change, Changes
from slacktide.engine.job.account import StretchAccount, has_all
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.step_context import StepContext, WorkerReports
from slacktide.journal.events import PaceRevised, Resumed
from slacktide.journal.state.journal_state import JobRecord
from slacktide.physics.pace import (
    KNOWN,
    LEAST_HOURS,
    MEASURED_HOURS,
    USUAL_SPREAD,
    Pace,
    learn,
    mean_factor,
    measure,
    prior,
    see_checkpoint,
    see_restart,
    whole_work,
)

SILENT = (
    "it has reported no progress, so its pace cannot be measured: its file is believed until it reports some"
)


def note_reports(context: StepContext, record: JobRecord) -> Changes:
    """Note when workers first report and when they save; write how long they took to start."""
    facts, order = context.status(record.job), record.holding.order
    progress = facts.progress
    if order is None or not order.gpus or facts.finished is None or not _is_measured(context, record):
        return
    seen = context.reports.get(record.job)
    spoken = facts.attempt == order.attempt and progress is not None and math.isfinite(progress.at_hours)
    spoken = spoken and facts.reform_hours < math.inf  # until then the old set goes on, at its own width
    if seen is None or seen.attempt != order.attempt:
        ordered = math.inf if spoken else record.holding.attempt_hours
        seen = context.reports[record.job] = WorkerReports(order.attempt, ordered)
    if not spoken:
        return
    assert progress is not None
    if math.isinf(seen.at_hours):
        seen.at_hours = progress.at_hours
        seen.done_gpu_hours = progress.done_share * context.job_context(record).terms.work_gpu_hours
        seen.saved_share = progress.checkpointed_share
        yield from _note_start(context, record, seen, facts.reform_hours)
    if progress.checkpointed_share > seen.saved_share:
        if math.isfinite(seen.saved_hours) and progress.at_hours > seen.saved_hours:
            seen.intervals.append(progress.at_hours - seen.saved_hours)
        seen.saved_share, seen.saved_hours = progress.checkpointed_share, progress.at_hours


def _note_start(context: StepContext, record: JobRecord, seen: WorkerReports, reform_hours: float) -> Changes:
    """Write how long a set of workers took from its order to its first report.

    A set that re-formed counts from the request to do so, because its workers had worked until then.
    """
    hours = seen.at_hours - max(reform_hours, seen.ordered_hours)
    if not 0.0 < hours < math.inf:
        return
    job_context, begun = context.job_context(record), record.holding.begun
    at_hours = seen.at_hours if begun is None else max(seen.at_hours, begun.from_hours)
    what = "the order" if math.isinf(reform_hours) else "the request to re-form"
    why = (
        f"its workers took {hours * 60:.1f} minutes from {what} to their first report; its file says "
        f"{job_context.terms.restart_hours * 60:.1f}"
    )
    yield Change((_event(record, at_hours, see_restart(_before(record, job_context), hours), 0.0, why),))


def _is_measured(context: StepContext, record: JobRecord) -> bool:
    """Whether the pace of a job is measured at all: not if its file says that its work is certain.

    In fleets, only that of real workers on a market: a dry run must equal the simulation.
    """
    if context.job_context(record).job.work_spread == 0.0:
        return False
    if not record.fleet:
        return True
    return context.facts[record.job].finished is not None and context.fleets.shares_market(record)


def _before(record: JobRecord, job_context: JobContext) -> Pace:
    return prior(job_context.job.work_spread) if record.progress.pace is None else record.progress.pace


def revised(context: StepContext, record: JobRecord, account: StretchAccount) -> PaceRevised | None:
    """Return the event for what a finished stretch taught about its job's pace; None if nothing.

    Workers that report are measured from report to report, so that neither the start of a set of workers
    nor what came after its last report counts.
    """
    job_context, facts = context.job_context(record), context.facts[record.job]
    if record.holding.order is None or not record.holding.order.gpus or not _is_measured(context, record):
        return None
    before = _before(record, job_context)
    if math.isinf(before.hours) and facts.progress is not None:
        # It was believed to report nothing, but does after all.
        before = Pace(*prior(job_context.job.work_spread)[:8], *before[8:])
    if facts.finished is None:
        hours = account.priced.stretch.productive_hours
        after = learn(before, job_context.terms, record.progress.state, account.state, hours)
    elif facts.progress is None:
        return _silent(job_context, record, before, account)
    else:
        after, hours = _measured(context, record, job_context, before)
    if after == before:
        return None
    why = _why(job_context, after, record.order.gpus, hours)
    return _event(record, account.to_hours, after, float(hours), why)


def _event(record: JobRecord, at_hours: float, pace: Pace, hours: float, why: str) -> PaceRevised:
    return PaceRevised(
        job=record.job,
        at_hours=at_hours,
        gpus=record.order.gpus,
        measured_hours=hours,
        pace=Pace(*(float(number) for number in pace)),
        why=why,
    )


def _silent(
    job_context: JobContext, record: JobRecord, before: Pace, account: StretchAccount
) -> PaceRevised | None:
    """Give up measuring a job that had the time to report and did not.

    Where its file says how far its work may be off, that margin is kept; else the file is believed.
    """
    had = account.to_hours - record.holding.attempt_hours
    enough = job_context.terms.restart_hours + MEASURED_HOURS - TIME_TOLERANCE_HOURS
    if before.hours > 0.0 or had < enough or not has_all(record):
        return None
    stated = job_context.job.work_spread != USUAL_SPREAD
    after = before._replace(hours=MEASURED_HOURS) if stated else KNOWN
    why = f"{SILENT}, with the margin that it states" if stated else SILENT
    return _event(record, account.to_hours, after, 0.0, why)


def _measured(
    context: StepContext, record: JobRecord, job_context: JobContext, before: Pace
) -> tuple[Pace, float]:
    """Measure from the last report that counted to the newest one of the same workers."""
    facts, order, seen = context.status(record.job), record.order, context.reports.get(record.job)
    progress = facts.progress
    assert progress is not None
    if facts.attempt != order.attempt or not has_all(record) or math.isinf(progress.at_hours):
        return before, 0.0
    if seen is None or seen.attempt != order.attempt or math.isinf(seen.at_hours):
        return before, 0.0
    done, hours = progress.done_share * job_context.terms.work_gpu_hours, progress.at_hours - seen.at_hours
    if done < seen.done_gpu_hours:
        seen.at_hours, seen.done_gpu_hours = progress.at_hours, done
        return before, 0.0
    if hours <= LEAST_HOURS or done == seen.done_gpu_hours:
        return before, 0.0
    after = measure(before, job_context.terms, order.gpus, hours, seen.done_gpu_hours, done)
    for interval in seen.intervals:
        after = see_checkpoint(after, interval)
    seen.at_hours, seen.done_gpu_hours = progress.at_hours, done
    seen.intervals.clear()
    return after, hours


def _why(job_context: JobContext, after: Pace, width: int, hours: float) -> str:
    written = job_context.job.work_gpu_hours
    work = whole_work(after, written)
    gpus = format_count(width, "GPU")
    return (
        f"{hours * 60:.0f} minutes on {gpus}: {mean_factor(after, width):.2f} times the pace of its "
        f"file; all its work is about {work:.1f} GPU-hours, its file says {written:.1f}"
    )


def note_resumed(context: StepContext, record: JobRecord, now_hours: float) -> Changes:
    """Write from how much work a new set of workers goes on, when it first reports."""
    facts, order, begun = context.status(record.job), record.holding.order, record.holding.begun
    progress = facts.progress
    if not record.progress.unreported or order is None or begun is None or order.ending or progress is None:
        return
    if facts.attempt != order.attempt or math.isinf(progress.at_hours):
        return
    after = progress.done_share * context.job_context(record).terms.work_gpu_hours
    resumed = Resumed(
        job=record.job,
        at_hours=max(begun.from_hours, min(now_hours, progress.at_hours)),
        actor="worker",
        attempt=order.attempt,
        before_gpu_hours=record.progress.reported_gpu_hours,
        after_gpu_hours=after,
        lost_gpu_hours=max(0.0, record.progress.reported_gpu_hours - after),
        expected_gpu_hours=record.progress.expected_lost_gpu_hours,
    )
    yield Change((resumed,))
