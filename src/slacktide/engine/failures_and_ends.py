"""What can come between two decisions: ends, failures, hangs, losses, requests, the end of money."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from slacktide.backends.base import BackendStatus
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, Order, Reason
from slacktide.core.units import format_usd
from slacktide.engine.changes import Change, Changes, Directive
from slacktide.engine.event_builders import decided, ended, lived, preempted
from slacktide.engine.fulfil import fulfil
from slacktide.engine.holding import note_begun, note_held
from slacktide.engine.job.account import StretchAccount, account, known_safe_gpu_hours
from slacktide.engine.pending_decisions import PendingDecision
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import (
    Ending,
    Event,
    Held,
    Lost,
    Released,
    Restarted,
    Stalled,
    Status,
    WorkerFailed,
)
from slacktide.journal.state.journal_state import NOTHING, JobRecord
from slacktide.physics import progress as physics
from slacktide.physics.tariff import usd_per_hour

LEFT = Reason("what-is-left")
NEXT_WISH = Reason("next-wish")
REQUESTED = "a user asked for it"
STOPS = "the controller is stopping"
STOPS_LATE = "its deadline has passed and after_deadline is 'stop'"
HANGS = (
    "no new progress for {silent_s:.0f} s, and hang_after allows {patience_s:.0f} s; if it was still "
    "working, report progress more often, or give hang_after a longer time or 'never' in the job file"
)
MOST_STOPS = 20  # workers that are stopped this often from outside, without any work between, always will be
STOPPED_TOO_OFTEN = (
    f"its workers were stopped more than {MOST_STOPS} times in a row without progress, and not by this "
    "controller; a script must not signal its own process group"
)


Response: TypeAlias = Callable[[StepContext, JobRecord, StretchAccount, BackendStatus], Changes]
"""What is done about something that happened to a job."""


def watch(context: StepContext, record: JobRecord, facts: BackendStatus, now_hours: float) -> Changes:
    """Inside a slot: see what is held, and whether the job is done, has failed, hangs, or must be stopped."""
    yield from note_begun(context, record, facts, now_hours)
    yield from note_held(context, record, facts, now_hours)
    one = account(context.job_context(record), record, facts, now_hours)
    assert record.holding.order is not None
    if one.state.ended and not record.holding.order.ending:
        yield from finish(context, record, one)
        return
    answer = pressing(context, record, facts, now_hours)
    if answer is not None:
        yield from answer(context, record, one, facts)


def pressing(
    context: StepContext, record: JobRecord, facts: BackendStatus, now_hours: float
) -> Response | None:
    """Return what must be done about a job before its policy decides; None where nothing must."""
    order = record.holding.order
    assert order is not None
    if order.ending:
        return _gone if facts.gone else None
    if record.requests.cancelled:
        return _cancel
    if context.releasing:
        return _release
    if facts.finished is not None and now_hours >= order.until_hours:
        return _stop_in_time
    if context.job_context(record).patience.preempted_too_often(record.holding.preemptions):
        return _give_up
    if order.gpus and (answer := _trouble(context, record, facts)) is not None:
        return answer
    return None if record.requests.preemption is None else _preempt


def _trouble(context: StepContext, record: JobRecord, facts: BackendStatus) -> Response | None:
    """Return what must be done about workers that are not well."""
    assert record.holding.order is not None
    if (
        facts.newest_attempt > record.holding.order.attempt
    ):  # the journal is older than what was begun from it
        return _lost_all
    if facts.attempt != record.holding.order.attempt:
        return None
    if facts.failure is not None:
        return _failed
    if facts.stopped:
        return _lost_all
    if facts.silent_s > context.job_context(record).patience.silent_s:
        return _stalled
    return _taken if facts.taken_spot_gpus else None


def finish(context: StepContext, record: JobRecord, one: StretchAccount) -> Changes:
    """End a job that ended by itself: its work is done, or its money."""
    job, order = context.job_context(record).job, record.holding.order
    assert order is not None
    own_hours = one.state.finish_hours - record.began_hours
    status: Status = "succeeded"
    if one.state.exhausted:
        status = "budget_exhausted"
    elif not job.on_time(own_hours) and (job.hard or job.value_at(own_hours) <= 0.0):
        status = "deadline_missed"
    why = ""
    if one.state.exhausted and one.to_hours >= context.job_context(record).stops_hours - TIME_TOLERANCE_HOURS:
        status, why = "deadline_missed", STOPS_LATE
    elif one.state.exhausted:
        why = spent(job.money_usd, one.state.cost_usd)
    events = lived(record, one), ended(record, status, why, one.to_hours, one.state.finish_hours)
    yield Change(events, (Directive(record, order=order._replace(ending=True)),))


def let_go(context: StepContext, record: JobRecord, ending: Ending, why: str) -> Changes:
    """Begin to let go of all workers for good; they are paid until they are gone."""
    begun, order = record.holding.begun, record.holding.order
    assert begun is not None
    assert order is not None
    wish = Allocation(reason=Reason(why), memory=record.progress.memory)
    decision = decided(begun, record.progress.state, order._replace(ending=True), wish, ending)
    yield Change((decision,), (Directive(record),))


def _cancel(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    yield from let_go(context, record, "cancelled", REQUESTED)


def _release(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    yield from let_go(context, record, "released", STOPS)


def _stop_in_time(
    context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus
) -> Changes:
    job_context = context.job_context(record)
    if one.to_hours >= job_context.stops_hours - TIME_TOLERANCE_HOURS:
        yield from let_go(context, record, "deadline_missed", STOPS_LATE)
        return
    reserve_usd = _reserve_usd(context, record, one)
    yield from let_go(
        context, record, "budget_exhausted", spent(job_context.job.money_usd, one.state.cost_usd, reserve_usd)
    )


def _reserve_usd(context: StepContext, record: JobRecord, one: StretchAccount) -> float:
    """Return what stopping may cost at the most: what is held, as long as it takes, at the worst price."""
    job_context, held = context.job_context(record), record.holding.held or NOTHING
    order = record.holding.order or held
    spot, on_demand = max(order.spot_gpus, held.spot_gpus), max(order.on_demand_gpus, held.on_demand_gpus)
    worst = job_context.worst_quote(job_context.slot(one.to_hours))
    return usd_per_hour(worst, spot, on_demand) * context.stop_hours(record.job)


def spent(limit_usd: float, spent_usd: float, reserve_usd: float = 0.0) -> str:
    """Say why a job is stopped at its maximum cost: the limit, what was spent, and what is kept back.

    Where stopping may cost more than is left, what it may cost: with a fast clock and a long grace period
    that may be more than the whole limit.
    """
    left = limit_usd - spent_usd
    said = f"max_cost allows {format_usd(limit_usd)}, and {format_usd(spent_usd)} was spent"
    if left < 0.005:
        return said
    if reserve_usd > left + 0.005:
        needed = format_usd(reserve_usd)
        return f"{said}; the reserve for stopping would be {needed}, and only {format_usd(left)} are left"
    return f"{said}; the other {format_usd(left)} are reserved for stopping"


def _give_up(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    yield from let_go(
        context, record, "failed", f"preempted {record.holding.preemptions} times, more than allowed"
    )


def _gone(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    """End or release a job that was to be let go and whose workers are all gone."""
    events: list[Event] = [lived(record, one, let_go=True)]
    if record.requests.ending == "released":
        events.append(Released(job=record.job, at_hours=one.to_hours, why=STOPS))
    else:
        assert record.requests.ending is not None
        events.append(ended(record, record.requests.ending, _why_ended(context, record, one), one.to_hours))
    yield Change.of(events)


def _why_ended(context: StepContext, record: JobRecord, one: StretchAccount) -> str:
    """Say what ended a job that was to be let go, with the figures as they are now."""
    if record.requests.ending == "deadline_missed":
        return STOPS_LATE
    if record.requests.ending == "failed":
        times = record.progress.failures_in_row
        return (
            f"{record.requests.ending_why}, {times} times in a row"
            if times > 1
            else record.requests.ending_why
        )
    limit = context.job_context(record).job.money_usd
    if record.requests.ending != "budget_exhausted" or math.isinf(limit):
        return ""
    left = limit - one.state.cost_usd
    kept = f"; the other {format_usd(left)} were reserved for stopping" if left >= 0.005 else ""
    return f"max_cost allows {format_usd(limit)}, and {format_usd(one.state.cost_usd)} was spent{kept}"


def _preempt(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    """Take spot workers away on a user's request; the job goes on with what is left."""
    order, request = record.holding.order, record.requests.preemption
    assert order is not None
    assert request is not None
    if order.spot_gpus == 0:
        why = "a user asked for it, but no spot is held"
        slot = one.priced.stretch.slot
        yield Change(
            (
                preempted(
                    record,
                    slot,
                    one.to_hours,
                    record.progress.state,
                    record.progress.state,
                    why,
                    by_user=True,
                ),
            )
        )
        return
    spot_left = max(0, order.spot_gpus - (request.spot_gpus or order.spot_gpus))
    yield from _lost(context, record, one, spot_left, request.why or REQUESTED, by_user=True)


def _lost(
    context: StepContext,
    record: JobRecord,
    one: StretchAccount,
    spot_left: int,
    why: str,
    *,
    by_user: bool = False,
) -> Changes:
    """Go on with what is left after spot workers were lost inside a slot."""
    job_context, begun, order = context.job_context(record), record.holding.begun, record.holding.order
    assert begun is not None
    assert order is not None
    left = physics.lose(job_context.terms, one.state, max(0, spot_left))
    offered = begun.quote.keeping(left.on_demand_gpus)
    spot, on_demand = physics.cut(job_context.terms, offered, left.spot_gpus, left.on_demand_gpus)
    anew = begun._replace(from_hours=one.to_hours)
    attempt = context.next_attempt(record)
    fewer = order._replace(attempt=attempt, spot_gpus=int(spot), on_demand_gpus=int(on_demand))
    after = context.lasting(record, left, anew, fewer)
    wish = Allocation(left.spot_gpus, left.on_demand_gpus, reason=LEFT, memory=record.progress.memory)
    events = (
        lived(record, one),
        preempted(record, begun.slot, one.to_hours, one.state, left, why, by_user=by_user),
        decided(anew, left, after, wish),
    )
    yield Change(events, (Directive(record, left.spot_gpus),))


def _taken(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    """Go on with what is left of spot whose machines went."""
    assert record.holding.order is not None
    if record.holding.wishes_left and not one.state.gpus and not (record.holding.held or NOTHING).gpus:
        yield from _try_next(context, record, one)
        return
    yield from _lost(
        context,
        record,
        one,
        record.holding.order.spot_gpus - facts.taken_spot_gpus,
        "its machines were taken",
    )


def _try_next(context: StepContext, record: JobRecord, one: StretchAccount) -> Changes:
    """Give up a wish whose spot never came, and try the next one: no slot has to pass for that."""
    order, begun = record.holding.order, record.holding.begun
    assert order is not None
    assert begun is not None
    rest = record.holding.wishes_left
    wish = Allocation(
        order.spot_gpus,
        order.on_demand_gpus,
        order.pool,
        NEXT_WISH,
        memory=record.progress.memory,
        instead=rest,
    )
    decision = PendingDecision(
        record, one.state, begun._replace(from_hours=one.to_hours), (lived(record, one),)
    )
    yield Change((*decision.before, *fulfil(context, decision, wish, known_missed=1)), (Directive(record),))


def _lost_all(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    """Begin again with new workers: these were stopped or have gone, which is no fault of the job's."""
    safe = known_safe_gpu_hours(facts, one.state)
    yield Change(
        (
            Lost(
                job=record.job,
                at_hours=one.to_hours,
                actor="market" if facts.taken_spot_gpus or facts.lost_on_demand_gpus else "worker",
                why=_how_lost(record, facts),
                attempt=record.holding.attempt,
                on_demand_gpus=facts.lost_on_demand_gpus,
                lost_gpu_hours=0.0 if facts.taken_spot_gpus else _unsaved_gpu_hours(one),
                checkpointed_gpu_hours=safe,
            ),
        )
    )
    if facts.taken_spot_gpus:
        yield from _taken(context, record, one, facts)
        return
    if not facts.lost_on_demand_gpus and record.progress.losses_in_row > MOST_STOPS:
        yield from let_go(context, record, "failed", STOPPED_TOO_OFTEN)
        return
    delay_s = context.job_context(record).patience.delay_s(record.progress.losses_in_row)
    again = Restarted(
        job=record.job,
        at_hours=one.to_hours,
        attempt=context.next_attempt(record),
        delay_s=delay_s if record.progress.losses_in_row > 1 else 0.0,
        why="its last workers are lost",
    )
    yield Change((again,), (Directive(record),))


def has_no_trace(order: Order, facts: BackendStatus) -> bool:
    """Whether nothing is left of a set of workers, neither they nor word of them."""
    word = facts.newest_attempt >= order.attempt or facts.stopped or facts.finished is not False
    there = facts.spot_gpus or facts.on_demand_gpus
    return not (word or there) and math.isinf(facts.since_hours) and math.isinf(facts.until_hours)


def vanished(record: JobRecord, order: Order) -> list[Event]:
    """Say that a set of workers is gone without a trace, since the last that the journal knows of it."""
    assert record.holding.begun is not None
    at_hours, why = record.holding.begun.from_hours, "its run folder is gone, and its workers with it"
    nothing = Held(job=record.job, at_hours=at_hours, attempt=order.attempt, spot_gpus=0, on_demand_gpus=0)
    lost = Lost(job=record.job, at_hours=at_hours, attempt=order.attempt, why=why)
    again = Restarted(job=record.job, at_hours=at_hours, attempt=order.attempt + 1, delay_s=0.0, why=why)
    return [nothing, lost, again]


def _unsaved_gpu_hours(one: StretchAccount) -> float:
    return one.state.progress_gpu_hours - one.state.checkpointed_gpu_hours


def _how_lost(record: JobRecord, facts: BackendStatus) -> str:
    if facts.newest_attempt > record.holding.attempt:
        return f"attempt {facts.newest_attempt} was already started, but this journal does not know it"
    if facts.taken_spot_gpus or facts.lost_on_demand_gpus:
        return "its machines are gone"
    return "its workers were stopped, and not by this controller"


def _failed(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    """Note that a worker failed, and begin again or give up."""
    failure = facts.failure
    assert failure is not None
    failed = WorkerFailed(
        job=record.job,
        at_hours=one.to_hours,
        actor="worker",
        why=failure.what or f"rank {failure.rank} exited with {failure.exit_code}",
        attempt=record.holding.attempt,
        rank=failure.rank,
        exit_code=failure.exit_code,
        checkpointed_gpu_hours=known_safe_gpu_hours(facts, one.state),
        lost_gpu_hours=_unsaved_gpu_hours(one),
    )
    yield from _again(context, record, failed, hopeless=failure.hopeless)


def _stalled(context: StepContext, record: JobRecord, one: StretchAccount, facts: BackendStatus) -> Changes:
    """Note that a job hangs, and begin again or give up."""
    stalled = Stalled(
        job=record.job,
        at_hours=one.to_hours,
        why=HANGS.format(silent_s=facts.silent_s, patience_s=context.job_context(record).patience.silent_s),
        attempt=record.holding.attempt,
        silent_s=facts.silent_s,
        checkpointed_gpu_hours=known_safe_gpu_hours(facts, one.state),
        lost_gpu_hours=_unsaved_gpu_hours(one),
    )
    yield from _again(context, record, stalled, hopeless=False)


def _again(
    context: StepContext, record: JobRecord, failed: WorkerFailed | Stalled, *, hopeless: bool
) -> Changes:
    yield Change((failed,))
    patience = context.job_context(record).patience
    if hopeless or record.progress.failures_in_row > patience.failures:
        yield from let_go(context, record, "failed", failed.why)
        return
    again = Restarted(
        job=record.job,
        at_hours=failed.at_hours,
        attempt=context.next_attempt(record),
        delay_s=patience.delay_s(record.progress.failures_in_row),
        why=f"failure {record.progress.failures_in_row} in a row, {patience.failures} allowed",
    )
    yield Change((again,), (Directive(record),))
