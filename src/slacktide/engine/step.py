"""One step of the engine: what has passed is accounted for, then all jobs that are due are decided about.

First every job is brought to the present: the slots that are over, ends, failures, requests. Then the market
takes back what it takes. Only then do policies decide, with what is really there; all that was decided is
written as one batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from slacktide.allocators.each import Each
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, JobState, Reason
from slacktide.core.units import format_count
from slacktide.engine.changes import Change, Changes, Changing, Directive
from slacktide.engine.event_builders import decided, ended, lived, preempted
from slacktide.engine.failures_and_ends import ASKED, LEFT, STOPS, STOPS_LATE, finish, pressing, watch
from slacktide.engine.fleet.fleets import LiveFleet
from slacktide.engine.fleet.step import FleetStep
from slacktide.engine.fulfil import fulfil
from slacktide.engine.holding import note_begun, note_held
from slacktide.engine.job.account import StretchAccount, account
from slacktide.engine.job.blocked_jobs import Careful
from slacktide.engine.job.pace_learning import note_reports, note_resumed, revised
from slacktide.engine.pending_decisions import PendingDecision, view_of_all
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import ClockJumped, Event, Released
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import UNSEEN_SLOT, Begun, JobRecord
from slacktide.physics import physics

UNSEEN = Reason(UNSEEN_SLOT)
BLOCKED = Reason("blocked")
STOPPING = Reason("stopping")
"""Workers that were told to stop are held until they have ended, whatever the market offers meanwhile."""


def take_step(context: StepContext, active: Sequence[JobRecord], now_hours: float) -> Changes:
    """Do all that is due for these jobs at this time of the market clock."""
    for track in active:
        yield from note_resumed(context, track, context.facts[track.job], now_hours)
        yield from note_reports(context, track, context.facts[track.job])
    due = [track for track in active if _is_due(context, track, now_hours)]
    pending = yield from _turn(context, due, now_hours)
    turned = {ask.track.job for ask in pending}
    for track in active:
        if track.holding.begun is not None and track.job not in turned:
            yield from watch(
                context, track, context.facts[track.job], max(now_hours, track.holding.begun.from_hours)
            )
    waiting = [
        track for track in active if track.active and track.holding.begun is None and track.job not in turned
    ]
    for track in waiting:
        ask = yield from _begin(context, track, now_hours)
        if ask is not None:
            pending.append(ask)
    yield from _decide(context, pending, now_hours)


def _is_due(context: StepContext, track: JobRecord, now_hours: float) -> bool:
    """Whether the slot of a job's open stretch is over."""
    return track.holding.begun is not None and context.lane(track).slot(now_hours) > track.holding.begun.slot


def _turn(
    context: StepContext, tracks: Sequence[JobRecord], now_hours: float
) -> Changing[list[PendingDecision]]:
    """Account for the slots that have passed, and say who is to be decided about in the next.

    A job that has failed, must stop or that a user stops or preempts goes over with what is left; its policy
    does not decide.
    """
    over = []
    for track in tracks:
        over.append((track, (yield from _caught_up(context, track, now_hours))))
    asked = [(track, one) for track, one in over if one is not None and track.requests.ending is None]
    for track, one in over:
        if one is not None and track.requests.ending is not None:
            yield from _go_on(context, track, one, STOPPING)
    _lose(context, [track for track, _ in asked], now_hours)
    pending = [_turned(context, track, one) for track, one in asked]
    urgent = [ask for ask in pending if _is_pressing(context, ask.track, now_hours)]
    yield from _keep_what_is_left(context, urgent)
    return [ask for ask in pending if ask not in urgent]


def _is_pressing(context: StepContext, track: JobRecord, now_hours: float) -> bool:
    return pressing(context, track, context.facts[track.job], now_hours) is not None


def _keep_what_is_left(
    context: StepContext, pending: Sequence[PendingDecision], reason: Reason = LEFT
) -> Changes:
    """Let jobs hold in the new slot what the market left them, without a decision of their policies."""
    events: list[Event] = []
    for ask in pending:
        state = ask.state
        wish = Allocation(
            state.spot_gpus, state.on_demand_gpus, reason=reason, memory=ask.track.progress.memory
        )
        events += (*ask.before, *fulfil(context, ask, wish))
    if pending:
        yield Change.of(events, (Directive(ask.track, ask.taken) for ask in pending))


def _caught_up(context: StepContext, track: JobRecord, now_hours: float) -> Changing[StretchAccount | None]:
    """Return a job's stretch up to the border of the present slot; None where the job ended before it."""
    lane, facts = context.lane(track), context.facts[track.job]
    slot = lane.slot(now_hours)
    assert track.holding.begun is not None
    if slot > track.holding.begun.slot + 1:
        yield Change((_unseen(track, now_hours, slot - track.holding.begun.slot - 1),))
    while True:
        border = lane.begins(track.holding.begun.slot + 1)
        yield from note_begun(context, track, facts, border)
        if facts.gone and facts.until_hours <= border:
            yield from note_held(context, track, facts, border)
        one = account(lane, track, facts, border)
        if one.state.ended:
            yield from finish(context, track, one)
            return None
        if track.holding.begun.slot + 1 == slot:
            return one
        yield from _go_on(context, track, one, UNSEEN)


def _unseen(track: JobRecord, now_hours: float, slots: int) -> ClockJumped:
    assert track.holding.begun is not None
    return ClockJumped(
        job=track.job,
        at_hours=now_hours,
        from_hours=track.holding.begun.from_hours,
        why=f"{slots} slots passed without a decision; they are billed as held",
    )


def _go_on(context: StepContext, track: JobRecord, one: StretchAccount, reason: Reason) -> Changes:
    """Go over into the next slot with what is held."""
    order = track.holding.order
    assert order is not None
    begun = _next_slot(context, track, one)
    wish = Allocation(order.spot_gpus, order.on_demand_gpus, reason=reason, memory=track.progress.memory)
    same = context.lasting(track, one.state, begun, order)
    events = lived(track, one), decided(begun, one.state, same, wish, track.requests.ending)
    yield Change(events, (Directive(track),))


def _next_slot(context: StepContext, track: JobRecord, one: StretchAccount) -> Begun:
    slot = one.priced.stretch.slot + 1
    return Begun(slot, one.to_hours, context.lane(track).quote(slot))


def _lose(context: StepContext, tracks: Sequence[JobRecord], now_hours: float) -> None:
    """Find out whose spot goes in each pool where the new slot offers less than is held."""
    offered = {lane.market_pool.name: lane for lane in map(context.lane, tracks)}
    for pool, lane in offered.items():
        left = lane.quote(lane.slot(now_hours)).spot_gpus
        context.spot.lose(pool, left, [track.job for track in tracks])


def _turned(context: StepContext, track: JobRecord, one: StretchAccount) -> PendingDecision:
    """Say where a job stands at the beginning of a slot, what the market takes already gone."""
    begun = _next_slot(context, track, one)
    left = physics.lose(context.lane(track).terms, one.state, context.spot.held(track.job))
    learned = revised(context, track, one)
    passed: tuple[Event, ...] = (lived(track, one), *([] if learned is None else [learned]))
    pace = None if learned is None else learned.pace
    notice = _notice_hours(context, track, left, begun)
    if left.spot_gpus >= one.state.spot_gpus:
        return PendingDecision(track, one.state, begun, passed, pace=pace, notice_hours=notice)
    why = f"the market left {format_count(begun.quote.spot_gpus, 'spot GPU')}"
    taken = preempted(track, begun.slot, begun.from_hours, one.state, left, why)
    return PendingDecision(
        track, left, begun, (*passed, taken), left.spot_gpus, pace=pace, notice_hours=notice
    )


def _notice_hours(context: StepContext, track: JobRecord, state: JobState, begun: Begun) -> float | None:
    """Return in which time spot goes that a job holds: as the market warns, else as the back end does."""
    if not state.spot_gpus:
        return None
    lane, facts, order = context.lane(track), context.facts[track.job], track.holding.order
    if lane.warns:
        safe = context.spot.safe_gpus(track.job)
        hours = lane.notice_hours(begun.slot, state, begun.from_hours, safe)
        if hours is not None:
            return hours
    # A warning to an older set of workers is no news: they have been replaced.
    return facts.notice_hours if order is not None and facts.attempt == order.attempt else None


def _begin(context: StepContext, track: JobRecord, now_hours: float) -> Changing[PendingDecision | None]:
    """Say where a job stands that is in no stretch yet, or in none any more; None where it is let go."""
    if track.requests.cancelled:
        yield Change((ended(track, "cancelled", ASKED, now_hours),))
        return None
    if context.releasing:
        if not track.requests.released:
            yield Change((Released(job=track.job, at_hours=now_hours, why=STOPS),))
        return None
    lane = context.lane(track)
    if now_hours >= lane.stops_hours:
        yield Change((ended(track, "deadline_missed", STOPS_LATE, now_hours),))
        return None
    slot = lane.slot(now_hours)
    begins = lane.begins(slot)
    at_hours = begins if abs(now_hours - begins) < TIME_TOLERANCE_HOURS else now_hours
    return PendingDecision(track, track.progress.state, Begun(slot, at_hours, lane.quote(slot)))


def _decide(context: StepContext, pending: Sequence[PendingDecision], now_hours: float) -> Changes:
    """Ask about all jobs at once: those by themselves each by its own policy, a fleet's by its allocator."""
    yield from _decide_each(context, [ask for ask in pending if not ask.track.fleet], now_hours)
    stuck = set(context.troubles.having("market"))
    if any(stuck & set(fleet.present) for fleet in context.state.fleets.values()):
        return  # an allocator cannot be shown jobs whose market is gone
    for track, run in context.fleets:
        given = [ask for ask in pending if ask.track.fleet == track.key]
        yield from _renew(context, track, run, given, now_hours)
        for hours, these in _by_moment(given, now_hours, track):
            yield from _finish_ended(context, track, hours)
            step = FleetStep(context, track, run, these, hours)
            if context.releasing and not these:
                yield from step.let_go()
            else:
                yield from step.take()


def _renew(
    context: StepContext,
    track: FleetRecord,
    run: LiveFleet,
    given: Sequence[PendingDecision],
    now_hours: float,
) -> Changes:
    """Ask at the very moment at which money was renewed since the last step, unless a slot began since."""
    if run.market is None or context.releasing or any(ask.before for ask in given):
        return
    since = run.renewed_hours(track, now_hours)
    if -math.inf < run.asked_hours < since - TIME_TOLERANCE_HOURS and since < now_hours:
        yield from FleetStep(context, track, run, (), since).take()


def _finish_ended(context: StepContext, fleet: FleetRecord, now_hours: float) -> Changes:
    """End jobs that were decided about at a border and have ended since: no decision is due for them."""
    for track in [context.state.jobs[name] for name in fleet.present]:
        one = None if track.requests.ending is not None else context.account(track, now_hours)
        if one is not None and one.state.ended:
            yield from finish(context, track, one)


def _by_moment(
    pending: Sequence[PendingDecision], now_hours: float, fleet: FleetRecord
) -> Iterator[tuple[float, list[PendingDecision]]]:
    """Yield jobs with the moment at which they are decided about: a slot's border lies before it is seen.

    What became free between the two can be given only now.
    """
    early = [ask for ask in pending if ask.begun.from_hours < now_hours - TIME_TOLERANCE_HOURS]
    late = [ask for ask in pending if ask.begun.from_hours >= now_hours - TIME_TOLERANCE_HOURS]
    if early:
        border = max(ask.begun.from_hours for ask in early)
        went = fleet.held_after(border) > 0
        yield border, early
        if not late and not went:
            return
    yield now_hours, late


def _decide_each(context: StepContext, pending: Sequence[PendingDecision], now_hours: float) -> Changes:
    """Ask the policy of each job, and give it what it wants of what is there.

    Workers of a job that cannot be launched cannot be started: it keeps what it holds, and claims no more.
    """
    stuck = [ask for ask in pending if context.troubles.has(ask.track.job, "launch")]
    yield from _keep_what_is_left(context, stuck, BLOCKED)
    pending = [ask for ask in pending if ask not in stuck]
    if not pending:
        return
    by_job = {ask.track.job: ask for ask in pending}
    view = view_of_all(pending, now_hours, context.spot, context.lane)
    wanted = Each(lambda job: Careful(context.jobs.named(job).policy, context.troubles)).decide(view)
    events: list[Event] = []
    for job, wish in wanted.items():
        events += (*by_job[job].before, *fulfil(context, by_job[job], wish))
    yield Change.of(events, (Directive(by_job[job].track, by_job[job].taken) for job in wanted))
