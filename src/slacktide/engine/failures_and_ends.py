"""Handles what happens to jobs between decisions: ends, failures, hangs, losses, requests, no money left."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from slacktide.backends.base import BackendStatus
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, Order, Reason
from slacktide.core.units import format_usd
from slacktide.engine.changes import Change, Changes, Directive, decided, ended, lived, preempted
from slacktide.engine.fulfil import fulfil
from slacktide.engine.holding import note_begun, note_held
from slacktide.engine.job.account import StretchAccount, known_safe_gpu_hours
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
MOST_STOPS = 20  # after more stops from outside in a row, without progress, a job has failed
STOPPED_TOO_OFTEN = (
    f"its workers were stopped more than {MOST_STOPS} times in a row without progress, and not by this "
    "controller; a script must not signal its own process group"
)


Response: TypeAlias = Callable[[StepContext, JobRecord, StretchAccount], Changes]
"""What is done about something that happened to a job."""


def watch(context: StepContext, record: JobRecord, now_hours: float) -> Changes:
    """Inside a slot: note what is held, and respond if the job is done, failed, hangs, or must be stopped."""
    yield from note_begun(context, record, now_hours)
    yield from note_held(context, record, now_hours)
    account = context.account_at(record, now_hours)
    if account.state.ended and not record.order.ending:
        yield from finish(context, record, account)
    elif (answer := pressing(context, record, now_hours)) is not None:
        yield from answer(context, record, account)


def pressing(context: StepContext, record: JobRecord, now_hours: float) -> Response | None:
    """Return what must be done about a job before its policy decides; None where nothing must."""
    order, facts = record.order, context.status(record.job)
    if order.ending:
        return _gone if facts.gone else None
    if record.requests.cancelled:
        return partial(let_go, ending="cancelled", why=REQUESTED)
    if context.releasing:
        return partial(let_go, ending="released", why=STOPS)
    if facts.finished is not None and now_hours >= order.until_hours:
        return _stop_in_time
    preemptions, allowed = record.holding.preemptions, context.job_context(record).patience.preemptions
    if allowed is not None and preemptions > allowed:
        return partial(let_go, ending="failed", why=f"preempted {preemptions} times, more than allowed")
    if order.gpus and (answer := _trouble(context, record, facts)) is not None:
        return answer
    return None if record.requests.preemption is None else _preempt


def _trouble(context: StepContext, record: JobRecord, facts: BackendStatus) -> Response | None:
    if facts.newest_attempt > record.order.attempt:  # a newer copy of this journal started them
        return _lost_all
    if facts.attempt != record.order.attempt:
        return None
    if facts.failure is not None:
        return _failed
    if facts.stopped:
        return _lost_all
    if facts.silent_s > context.job_context(record).patience.silent_s:
        return _stalled
    return _taken if facts.taken_spot_gpus else None


def finish(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    """End a job that ended by itself: its work is done, or its money."""
    job_context, own_hours = context.job_context(record), account.state.finish_hours - record.began_hours
    job = job_context.job
    status: Status = "succeeded"
    why = ""
    if account.state.exhausted and account.to_hours >= job_context.stops_hours - TIME_TOLERANCE_HOURS:
        status, why = "deadline_missed", STOPS_LATE
    elif account.state.exhausted:
        status, why = "budget_exhausted", spent(job.money_usd, account.state.cost_usd)
    elif not job.on_time(own_hours) and (job.hard or job.value_at(own_hours) <= 0.0):
        status = "deadline_missed"
    events = lived(record, account), ended(record, status, why, account.to_hours, account.state.finish_hours)
    yield Change(events, (Directive(record, order=record.order._replace(ending=True)),))


def let_go(
    context: StepContext, record: JobRecord, account: StretchAccount, ending: Ending, why: str
) -> Changes:
    """Begin to stop all workers for good; they are paid for until they are gone."""
    wish = Allocation(reason=Reason(why), memory=record.progress.memory)
    order = record.order._replace(ending=True)
    decision = decided(record.begun, record.progress.state, order, wish, ending)
    yield Change((decision,), (Directive(record),))


def _stop_in_time(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    job_context = context.job_context(record)
    if account.to_hours >= job_context.stops_hours - TIME_TOLERANCE_HOURS:
        yield from let_go(context, record, account, "deadline_missed", STOPS_LATE)
        return
    # What stopping may cost at the most: what is held, as long as it takes, at the worst price.
    spot, on_demand = record.most(record.order)
    worst = job_context.worst_quote(job_context.slot(account.to_hours))
    reserve_usd = usd_per_hour(worst, spot, on_demand) * context.stop_hours(record.job)
    why = spent(job_context.job.money_usd, account.state.cost_usd, reserve_usd)
    yield from let_go(context, record, account, "budget_exhausted", why)


def spent(limit_usd: float, spent_usd: float, reserve_usd: float = 0.0) -> str:
    """Say why a job is stopped at its maximum cost: the limit, what was spent, and what is reserved.

    If stopping may cost more than is left, say how much: with a fast clock and a long grace period that may
    be more than the whole limit.
    """
    left = limit_usd - spent_usd
    said = f"max_cost allows {format_usd(limit_usd)}, and {format_usd(spent_usd)} was spent"
    if left < 0.005:
        return said
    if reserve_usd > left + 0.005:
        needed = format_usd(reserve_usd)
        return f"{said}; the reserve for stopping would be {needed}, and only {format_usd(left)} are left"
    return f"{said}; the other {format_usd(left)} are reserved for stopping"


def _gone(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    ending = record.requests.ending
    assert ending is not None
    over: Event
    if ending == "released":
        over = Released(job=record.job, at_hours=account.to_hours, why=STOPS)
    else:
        over = ended(record, ending, _why_ended(context, record, account), account.to_hours)
    gone = account.state._replace(spot_gpus=0, on_demand_gpus=0, pause_hours=0.0)
    yield Change((lived(record, account._replace(state=gone)), over))


def _why_ended(context: StepContext, record: JobRecord, account: StretchAccount) -> str:
    """Say why a job ended whose workers were being stopped, with the figures as they are now."""
    requests, times = record.requests, record.progress.failures_in_row
    limit = context.job_context(record).job.money_usd
    match requests.ending:
        case "deadline_missed":
            return STOPS_LATE
        case "failed":
            return f"{requests.ending_why}, {times} times in a row" if times > 1 else requests.ending_why
        case "budget_exhausted" if math.isfinite(limit):
            return spent(limit, account.state.cost_usd).replace("are reserved", "were reserved")
    return ""


def _preempt(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    """Take spot workers away on a user's request; the job goes on with what is left."""
    order, request, state = record.order, record.requests.preemption, record.progress.state
    assert request is not None
    if order.spot_gpus == 0:
        why = "a user asked for it, but no spot is held"
        slot = account.priced.stretch.slot
        yield Change((preempted(record, slot, account.to_hours, state, state, why, by_user=True),))
        return
    spot_left = max(0, order.spot_gpus - (request.spot_gpus or order.spot_gpus))
    yield from _lost(context, record, account, spot_left, request.why or REQUESTED, by_user=True)


def _lost(
    context: StepContext,
    record: JobRecord,
    account: StretchAccount,
    spot_left: int,
    why: str,
    *,
    by_user: bool,
) -> Changes:
    """Go on with what is left after spot workers were lost inside a slot."""
    job_context, begun = context.job_context(record), record.begun
    left = physics.lose(job_context.terms, account.state, max(0, spot_left))
    offered = begun.quote.keeping(left.on_demand_gpus)
    spot, on_demand = physics.cut(job_context.terms, offered, left.spot_gpus, left.on_demand_gpus)
    anew = begun._replace(from_hours=account.to_hours)
    fewer = record.order._replace(
        attempt=context.next_attempt(record), spot_gpus=int(spot), on_demand_gpus=int(on_demand)
    )
    after = context.lasting(record, left, anew, fewer)
    wish = Allocation(left.spot_gpus, left.on_demand_gpus, reason=LEFT, memory=record.progress.memory)
    events = (
        lived(record, account),
        preempted(record, begun.slot, account.to_hours, account.state, left, why, by_user=by_user),
        decided(anew, left, after, wish),
    )
    yield Change(events, (Directive(record, left.spot_gpus),))


def _taken(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    if record.holding.wishes_left and not account.state.gpus and not (record.holding.held or NOTHING).gpus:
        yield from _try_next(context, record, account)
        return
    spot_left = record.order.spot_gpus - context.status(record.job).taken_spot_gpus
    yield from _lost(context, record, account, spot_left, "its machines were taken", by_user=False)


def _try_next(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    """Give up a wish whose spot never came, and try the next one in the same slot."""
    order, rest, memory = record.order, record.holding.wishes_left, record.progress.memory
    wish = Allocation(
        order.spot_gpus, order.on_demand_gpus, order.pool, NEXT_WISH, memory=memory, instead=rest
    )
    begun = record.begun._replace(from_hours=account.to_hours)
    decision = PendingDecision(record, account.state, begun, (lived(record, account),))
    yield Change((*decision.before, *fulfil(context, decision, wish, known_missed=1)), (Directive(record),))


def _lost_all(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    """Start new workers after the last were stopped or disappeared, which is not the job's fault."""
    facts = context.status(record.job)
    by_market = facts.taken_spot_gpus or facts.lost_on_demand_gpus
    why = "its machines are gone" if by_market else "its workers were stopped, and not by this controller"
    if facts.newest_attempt > record.holding.attempt:
        why = f"attempt {facts.newest_attempt} was already started, but this journal does not know it"
    lost = Lost(
        job=record.job,
        at_hours=account.to_hours,
        actor="market" if by_market else "worker",
        why=why,
        attempt=record.holding.attempt,
        on_demand_gpus=facts.lost_on_demand_gpus,
        lost_gpu_hours=0.0 if facts.taken_spot_gpus else account.unsaved_gpu_hours,
        checkpointed_gpu_hours=known_safe_gpu_hours(facts, account.state),
    )
    yield Change((lost,))
    if facts.taken_spot_gpus:
        yield from _taken(context, record, account)
    elif not facts.lost_on_demand_gpus and record.progress.losses_in_row > MOST_STOPS:
        yield from let_go(context, record, account, "failed", STOPPED_TOO_OFTEN)
    else:
        in_row = record.progress.losses_in_row
        delay_s = context.job_context(record).patience.delay_s(in_row) if in_row > 1 else 0.0
        yield from _restart(context, record, account.to_hours, delay_s, "its last workers are lost")


def has_no_trace(order: Order, facts: BackendStatus) -> bool:
    """Whether nothing is left of a set of workers: no process, and no report of what became of them."""
    word = facts.newest_attempt >= order.attempt or facts.stopped or facts.finished is not False
    there = facts.spot_gpus or facts.on_demand_gpus
    return not (word or there) and math.isinf(facts.since_hours) and math.isinf(facts.until_hours)


def vanished(record: JobRecord, order: Order) -> list[Event]:
    """Return the events for workers that are gone without a trace, as of the start of their open stretch."""
    at_hours, why = record.begun.from_hours, "its run folder is gone, and its workers with it"
    nothing = Held(job=record.job, at_hours=at_hours, attempt=order.attempt, spot_gpus=0, on_demand_gpus=0)
    lost = Lost(job=record.job, at_hours=at_hours, attempt=order.attempt, why=why)
    again = Restarted(job=record.job, at_hours=at_hours, attempt=order.attempt + 1, delay_s=0.0, why=why)
    return [nothing, lost, again]


def _failed(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    facts = context.status(record.job)
    failure = facts.failure
    assert failure is not None
    failed = WorkerFailed(
        job=record.job,
        at_hours=account.to_hours,
        actor="worker",
        why=failure.what or f"rank {failure.rank} exited with {failure.exit_code}",
        attempt=record.holding.attempt,
        rank=failure.rank,
        exit_code=failure.exit_code,
        checkpointed_gpu_hours=known_safe_gpu_hours(facts, account.state),
        lost_gpu_hours=account.unsaved_gpu_hours,
    )
    yield from _again(context, record, account, failed, hopeless=failure.hopeless)


def _stalled(context: StepContext, record: JobRecord, account: StretchAccount) -> Changes:
    facts = context.status(record.job)
    stalled = Stalled(
        job=record.job,
        at_hours=account.to_hours,
        why=HANGS.format(silent_s=facts.silent_s, patience_s=context.job_context(record).patience.silent_s),
        attempt=record.holding.attempt,
        silent_s=facts.silent_s,
        checkpointed_gpu_hours=known_safe_gpu_hours(facts, account.state),
        lost_gpu_hours=account.unsaved_gpu_hours,
    )
    yield from _again(context, record, account, stalled, hopeless=False)


def _again(
    context: StepContext,
    record: JobRecord,
    account: StretchAccount,
    failed: WorkerFailed | Stalled,
    *,
    hopeless: bool,
) -> Changes:
    yield Change((failed,))
    patience, in_row = context.job_context(record).patience, record.progress.failures_in_row
    if hopeless or in_row > patience.failures:
        yield from let_go(context, record, account, "failed", failed.why)
        return
    why = f"failure {in_row} in a row, {patience.failures} allowed"
    yield from _restart(context, record, account.to_hours, patience.delay_s(in_row), why)


def _restart(context: StepContext, record: JobRecord, at_hours: float, delay_s: float, why: str) -> Changes:
    attempt = context.next_attempt(record)
    again = Restarted(job=record.job, at_hours=at_hours, attempt=attempt, delay_s=delay_s, why=why)
    yield Change((again,), (Directive(record),))
