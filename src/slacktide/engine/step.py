"""One step of the engine: account for the time that has passed, then decide about the jobs that are due.

First every job is brought up to the present: slots that are over, ends, failures, requests. Then the market
takes back the spot that it no longer offers. Only then do policies decide, from what is really left; what
they decide about all jobs without a fleet is written as one batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from slacktide.allocators.each import Each
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, JobState, Reason
from slacktide.core.units import format_count
from slacktide.engine.changes import Change, Changes, Changing, Directive, decided, ended, lived, preempted
from slacktide.engine.failures_and_ends import LEFT, REQUESTED, STOPS, STOPS_LATE, finish, pressing, watch
from slacktide.engine.fleet.decide import FleetStep
from slacktide.engine.fulfil import fulfil
from slacktide.engine.holding import note_begun, note_held
from slacktide.engine.job.account import StretchAccount
from slacktide.engine.job.blocked_jobs import FailsafePolicy
from slacktide.engine.job.pace_learning import note_reports, note_resumed, revised
from slacktide.engine.pending_decisions import PendingDecision, view_of_all
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import ClockJumped, Event, Released
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import BEING_STOPPED, UNSEEN_SLOT, Begun, JobRecord
from slacktide.physics import progress as physics

UNSEEN = Reason(UNSEEN_SLOT)
BLOCKED = Reason("blocked")
STOPPING = Reason(BEING_STOPPED)
"""Workers that are being stopped count as held until they have ended, whatever the market offers."""


def take_step(context: StepContext, active: Sequence[JobRecord], now_hours: float) -> Changes:
    """Do everything that is due for these jobs at this time of the market clock."""
    for record in active:
        yield from note_resumed(context, record, now_hours)
        yield from note_reports(context, record)
    due = [record for record in active if _is_due(context, record, now_hours)]
    pending = yield from _turn(context, due, now_hours)
    turned = {decision.record.job for decision in pending}
    for record in active:
        if record.holding.begun is not None and record.job not in turned:
            yield from watch(context, record, max(now_hours, record.begun.from_hours))
    idle = [record for record in active if record.active and record.holding.begun is None]
    for record in [record for record in idle if record.job not in turned]:
        decision = yield from _begin(context, record, now_hours)
        if decision is not None:
            pending.append(decision)
    yield from _decide(context, pending, now_hours)


def _is_due(context: StepContext, record: JobRecord, now_hours: float) -> bool:
    begun = record.holding.begun
    return begun is not None and context.job_context(record).slot(now_hours) > begun.slot


def _turn(
    context: StepContext, records: Sequence[JobRecord], now_hours: float
) -> Changing[list[PendingDecision]]:
    """Account for the slots that have passed; return the jobs whose policies must decide about the new one.

    A job that has failed, must stop, or that a user stops or preempts goes into the new slot with what it
    has left; its policy does not decide.
    """
    over = []
    for record in records:
        account = yield from _caught_up(context, record, now_hours)
        if account is not None:
            over.append((record, account))
    undecided = [(record, account) for record, account in over if record.requests.ending is None]
    for record, account in over:
        if record.requests.ending is not None:
            yield from _go_on(context, record, account, STOPPING)
    _lose(context, [record for record, _ in undecided], now_hours)
    pending = [_turned(context, record, account) for record, account in undecided]
    urgent = [decision for decision in pending if pressing(context, decision.record, now_hours) is not None]
    yield from _keep_what_is_left(context, urgent)
    return [decision for decision in pending if decision not in urgent]


def _keep_what_is_left(
    context: StepContext, pending: Sequence[PendingDecision], reason: Reason = LEFT
) -> Changes:
    """Let jobs hold in the new slot what the market left them, without a decision of their policies."""
    wanted = []
    for decision in pending:
        state, memory = decision.state, decision.record.progress.memory
        wish = Allocation(state.spot_gpus, state.on_demand_gpus, reason=reason, memory=memory)
        wanted.append((decision, wish))
    yield from _give(context, wanted)


def _give(context: StepContext, wanted: Sequence[tuple[PendingDecision, Allocation]]) -> Changes:
    """Give each job what is available of what it wants, in this order, as one change."""
    events: list[Event] = []
    for decision, wish in wanted:
        events += (*decision.before, *fulfil(context, decision, wish))
    if wanted:
        yield Change(events, [Directive(decision.record, decision.taken) for decision, _ in wanted])


def _caught_up(context: StepContext, record: JobRecord, now_hours: float) -> Changing[StretchAccount | None]:
    """Return a job's stretch up to the border of the present slot; None where the job ended before it."""
    job_context, facts = context.job_context(record), context.status(record.job)
    slot, begun = job_context.slot(now_hours), record.begun
    if slot > begun.slot + 1:
        why = f"{slot - begun.slot - 1} slots passed without a decision; they are billed as held"
        yield Change((ClockJumped(job=record.job, at_hours=now_hours, from_hours=begun.from_hours, why=why),))
    while True:
        border = job_context.begins(record.begun.slot + 1)
        yield from note_begun(context, record, border)
        if facts.gone and facts.until_hours <= border:
            yield from note_held(context, record, border)
        account = context.account_at(record, border)
        if account.state.ended:
            yield from finish(context, record, account)
            return None
        if record.begun.slot + 1 == slot:
            return account
        yield from _go_on(context, record, account, UNSEEN)


def _go_on(context: StepContext, record: JobRecord, account: StretchAccount, reason: Reason) -> Changes:
    order, begun = record.order, _next_slot(context, record, account)
    wish = Allocation(order.spot_gpus, order.on_demand_gpus, reason=reason, memory=record.progress.memory)
    same = context.lasting(record, account.state, begun, order)
    events = lived(record, account), decided(begun, account.state, same, wish, record.requests.ending)
    yield Change(events, (Directive(record),))


def _next_slot(context: StepContext, record: JobRecord, account: StretchAccount) -> Begun:
    slot = account.priced.stretch.slot + 1
    return Begun(slot, account.to_hours, context.job_context(record).quote(slot))


def _lose(context: StepContext, records: Sequence[JobRecord], now_hours: float) -> None:
    """Choose the jobs that lose spot, in each pool where the new slot offers less than is held."""
    offered = {job_context.market_pool.name: job_context for job_context in map(context.job_context, records)}
    for pool, job_context in offered.items():
        left = job_context.quote(job_context.slot(now_hours)).spot_gpus
        context.spot.lose(pool, left, [record.job for record in records])


def _turned(context: StepContext, record: JobRecord, account: StretchAccount) -> PendingDecision:
    """Return the pending decision of a job at the beginning of a slot, after the market took its part."""
    begun = _next_slot(context, record, account)
    left = physics.lose(context.job_context(record).terms, account.state, context.spot.held(record.job))
    learned = revised(context, record, account)
    passed: tuple[Event, ...] = (lived(record, account), *([] if learned is None else [learned]))
    pace = None if learned is None else learned.pace
    notice = _notice_hours(context, record, left, begun)
    decision = PendingDecision(record, account.state, begun, passed, pace=pace, notice_hours=notice)
    if left.spot_gpus >= account.state.spot_gpus:
        return decision
    why = f"the market left {format_count(begun.quote.spot_gpus, 'spot GPU')}"
    loss = preempted(record, begun.slot, begun.from_hours, account.state, left, why)
    return decision._replace(state=left, before=(*passed, loss), taken=left.spot_gpus)


def _notice_hours(context: StepContext, record: JobRecord, state: JobState, begun: Begun) -> float | None:
    """Return in how many hours a job will lose spot, as the market or else the back end warns."""
    if not state.spot_gpus:
        return None
    job_context, facts = context.job_context(record), context.status(record.job)
    if job_context.warns:
        safe = context.spot.safe_gpus(record.job)
        hours = job_context.notice_hours(begun.slot, state, begun.from_hours, safe)
        if hours is not None:
            return hours
    # A warning to an older set of workers is no news: they have been replaced.
    return facts.notice_hours if facts.attempt == record.order.attempt else None


def _begin(context: StepContext, record: JobRecord, now_hours: float) -> Changing[PendingDecision | None]:
    """Return the pending decision of a job without an open stretch; None if it ends or is released."""
    if record.requests.cancelled:
        yield Change((ended(record, "cancelled", REQUESTED, now_hours),))
        return None
    if context.releasing:
        if not record.requests.released:
            yield Change((Released(job=record.job, at_hours=now_hours, why=STOPS),))
        return None
    job_context = context.job_context(record)
    if now_hours >= job_context.stops_hours:
        yield Change((ended(record, "deadline_missed", STOPS_LATE, now_hours),))
        return None
    slot = job_context.slot(now_hours)
    begins = job_context.begins(slot)
    at_hours = begins if abs(now_hours - begins) < TIME_TOLERANCE_HOURS else now_hours
    return PendingDecision(record, record.progress.state, Begun(slot, at_hours, job_context.quote(slot)))


def _decide(context: StepContext, pending: Sequence[PendingDecision], now_hours: float) -> Changes:
    """Decide about all jobs at once: single jobs by their own policies, those of a fleet by its allocator."""
    yield from _decide_each(
        context, [decision for decision in pending if not decision.record.fleet], now_hours
    )
    stuck = set(context.troubles.having("market"))
    if any(stuck & set(fleet.present) for fleet in context.state.fleets.values()):
        return  # an allocator cannot be shown jobs whose market is gone
    for fleet in list(context.state.fleets.values()):  # also without a job: an allocator may wake up
        given = [decision for decision in pending if decision.record.fleet == fleet.key]
        yield from _renew(context, fleet, given, now_hours)
        for hours, these in _by_moment(given, now_hours, fleet):
            yield from _finish_ended(context, fleet, hours)
            step = FleetStep(context, fleet, these, hours)
            if context.releasing and not these:
                yield from step.let_go()
            else:
                yield from step.take()


def _renew(
    context: StepContext, fleet: FleetRecord, given: Sequence[PendingDecision], now_hours: float
) -> Changes:
    """Decide for the moment at which a fleet's budget was renewed, unless a slot began since."""
    run = context.fleets.run(fleet)
    if run.market is None or context.releasing or any(decision.before for decision in given):
        return
    since = run.renewed_hours(fleet, now_hours)
    if -math.inf < run.decided_hours < since - TIME_TOLERANCE_HOURS and since < now_hours:
        yield from FleetStep(context, fleet, (), since).take()


def _finish_ended(context: StepContext, fleet: FleetRecord, now_hours: float) -> Changes:
    """End jobs that were decided about at a border and have ended since: no decision is due for them."""
    for record in context.members(fleet):
        account = None if record.requests.ending is not None else context.account(record, now_hours)
        if account is not None and account.state.ended:
            yield from finish(context, record, account)


def _by_moment(
    pending: Sequence[PendingDecision], now_hours: float, fleet: FleetRecord
) -> Iterator[tuple[float, list[PendingDecision]]]:
    """Yield groups of jobs, each with the moment for which they are decided about.

    A slot's border has passed when a step sees it. What became free in between can be given only now.
    """
    early = [decision for decision in pending if decision.begun.from_hours < now_hours - TIME_TOLERANCE_HOURS]
    late = [decision for decision in pending if decision.begun.from_hours >= now_hours - TIME_TOLERANCE_HOURS]
    if early:
        border = max(decision.begun.from_hours for decision in early)
        went = fleet.held_after(border) > 0
        yield border, early
        if not late and not went:
            return
    yield now_hours, late


def _decide_each(context: StepContext, pending: Sequence[PendingDecision], now_hours: float) -> Changes:
    """Decide by each job's own policy, and give it as much of what it wants as is available.

    A job whose workers cannot be launched keeps what it holds and gets no more.
    """
    stuck = [decision for decision in pending if context.troubles.has(decision.record.job, "launch")]
    yield from _keep_what_is_left(context, stuck, BLOCKED)
    pending = [decision for decision in pending if decision not in stuck]
    if not pending:
        return
    by_job = {decision.record.job: decision for decision in pending}
    view = view_of_all(pending, now_hours, context.spot, context.job_context)
    wanted = Each(lambda job: FailsafePolicy(context.jobs.named(job).policy, context.troubles)).decide(view)
    yield from _give(context, [(by_job[job], wish) for job, wish in wanted.items()])
