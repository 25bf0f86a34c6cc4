"""What can come between two decisions: ends, failures, hangs, losses, requests, the end of money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slacktide import physics
from slacktide.backend.base import Facts, Failure
from slacktide.engine.account import Account, account, known_safe_gpu_hours
from slacktide.engine.telling import decided, ended, lived, preempted
from slacktide.engine.world import Track
from slacktide.events import Ending, Event, Released, Restarted, Stalled, Status, WorkerFailed
from slacktide.types import Allocation, Reason

if TYPE_CHECKING:
    from slacktide.engine.engine import Engine

LEFT = Reason("what-is-left")
ASKED = "a user asked for it"
STOPS = "the controller stops"


def watch(engine: Engine, track: Track, facts: Facts, now_hours: float) -> None:
    """Inside a slot: see whether the job is done, has failed, hangs, or must be stopped."""
    lane, order = engine.lane(track), track.order
    assert order is not None
    one, here = account(lane, track, facts, now_hours), facts.attempt == order.attempt
    if one.state.ended and not order.ending:
        finish(engine, track, one)
    elif order.ending:
        if facts.gone:
            _gone(engine, track, one)
    elif track.cancel_asked:
        let_go(engine, track, "cancelled", ASKED)
    elif engine.releasing:
        let_go(engine, track, "released", STOPS)
    elif facts.finished is not None and now_hours >= order.until_hours:
        let_go(engine, track, "budget_exhausted", "max_cost would be passed")
    elif lane.patience.preempted_too_often(track.preemptions):
        let_go(engine, track, "failed", f"preempted {track.preemptions} times, more than it may be")
    elif here and order.gpus and facts.failure is not None:
        _failed(engine, track, one, facts, facts.failure)
    elif here and order.gpus and facts.silent_s > lane.patience.silent_s:
        _stalled(engine, track, one, facts)
    elif here and facts.taken_spot_gpus:
        _lost(engine, track, one, order.spot_gpus - facts.taken_spot_gpus, "its machines were taken")
    elif track.preemption_asked is not None:
        _preempt(engine, track, one)


def finish(engine: Engine, track: Track, one: Account) -> None:
    """End a job that ended by itself: its work is done, or its money."""
    job, order = engine.lane(track).job, track.order
    assert order is not None
    own_hours = one.state.finish_hours - track.began_hours
    status: Status = "succeeded"
    if one.state.exhausted:
        status = "budget_exhausted"
    elif not job.on_time(own_hours) and (job.hard or job.value_at(own_hours) <= 0.0):
        status = "deadline_missed"
    engine.write([lived(track, one), ended(track, status, "", one.to_hours, one.state.finish_hours)])
    engine.backend.hold(order._replace(ending=True))


def let_go(engine: Engine, track: Track, ending: Ending, why: str) -> None:
    """Begin to let go of all workers for good; they are paid until they are gone."""
    begun, order = track.begun, track.order
    assert begun is not None
    assert order is not None
    wish = Allocation(reason=Reason(why), memory=track.memory)
    engine.act([decided(begun, track.state, order._replace(ending=True), wish, ending)], [(track, None)])


def _gone(engine: Engine, track: Track, one: Account) -> None:
    """End or release a job that was to be let go and whose workers are all gone."""
    events: list[Event] = [lived(track, one, let_go=True)]
    if track.ending == "released":
        events.append(Released(job=track.job, at_hours=one.to_hours, why=STOPS))
    else:
        assert track.ending is not None
        events.append(ended(track, track.ending, "", one.to_hours))
    engine.write(events)


def _preempt(engine: Engine, track: Track, one: Account) -> None:
    """Take spot workers away because a user asked for it; the job goes on with what is left."""
    order, asked = track.order, track.preemption_asked
    assert order is not None
    assert asked is not None
    if order.spot_gpus == 0:
        why = "a user asked for it, but no spot is held"
        slot = one.priced.stretch.slot
        engine.write([preempted(track, slot, one.to_hours, track.state, track.state, why, asked=True)])
        return
    spot_left = max(0, order.spot_gpus - (asked.spot_gpus or order.spot_gpus))
    _lost(engine, track, one, spot_left, asked.why or ASKED, asked=True)


def _lost(
    engine: Engine, track: Track, one: Account, spot_left: int, why: str, *, asked: bool = False
) -> None:
    """Go on with what is left after spot workers were lost inside a slot."""
    lane, begun, order = engine.lane(track), track.begun, track.order
    assert begun is not None
    assert order is not None
    left = physics.lose(lane.terms, one.state, max(0, spot_left))
    spot, on_demand = physics.cut(lane.terms, begun.quote, left.spot_gpus, left.on_demand_gpus)
    anew = begun._replace(from_hours=one.to_hours)
    fewer = order._replace(attempt=order.attempt + 1, spot_gpus=int(spot), on_demand_gpus=int(on_demand))
    after = engine.lasting(track, left, anew, fewer)
    wish = Allocation(left.spot_gpus, left.on_demand_gpus, reason=LEFT, memory=track.memory)
    events = [
        lived(track, one),
        preempted(track, begun.slot, one.to_hours, one.state, left, why, asked=asked),
        decided(anew, left, after, wish),
    ]
    engine.act(events, [(track, left.spot_gpus)])


def _failed(engine: Engine, track: Track, one: Account, facts: Facts, failure: Failure) -> None:
    """Note that a worker failed, and begin again or give up."""
    failed = WorkerFailed(
        job=track.job,
        at_hours=one.to_hours,
        actor="worker",
        why=failure.what or f"rank {failure.rank} ended with {failure.exit_code}",
        attempt=track.attempt,
        rank=failure.rank,
        exit_code=failure.exit_code,
        checkpointed_gpu_hours=known_safe_gpu_hours(facts, one.state),
    )
    _again(engine, track, failed, hopeless=failure.hopeless)


def _stalled(engine: Engine, track: Track, one: Account, facts: Facts) -> None:
    """Note that a job hangs, and begin again or give up."""
    stalled = Stalled(
        job=track.job,
        at_hours=one.to_hours,
        why=f"no progress for {facts.silent_s:.0f} s",
        attempt=track.attempt,
        silent_s=facts.silent_s,
        checkpointed_gpu_hours=known_safe_gpu_hours(facts, one.state),
    )
    _again(engine, track, stalled, hopeless=False)


def _again(engine: Engine, track: Track, failed: WorkerFailed | Stalled, *, hopeless: bool) -> None:
    engine.write([failed])
    patience = engine.lane(track).patience
    if hopeless or track.failures_in_row > patience.failures:
        let_go(engine, track, "failed", failed.why)
        return
    again = Restarted(
        job=track.job,
        at_hours=failed.at_hours,
        attempt=failed.attempt + 1,
        delay_s=patience.delay_s(track.failures_in_row),
        why=f"failure {track.failures_in_row} in a row of at most {patience.failures}",
    )
    engine.act([again], [(track, None)])
