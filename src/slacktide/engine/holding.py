"""What a job really holds: an order is a wish, what is paid for comes from the back end."""

from __future__ import annotations

import math

from slacktide.backends.base import BackendStatus
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.engine.changes import Change, Changes
from slacktide.engine.event_builders import lived
from slacktide.engine.job.account import account, has_finished
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Event, Held
from slacktide.journal.state.journal_state import NOTHING, Holding, JobRecord


def note_held(context: StepContext, record: JobRecord, facts: BackendStatus, now_hours: float) -> Changes:
    """End a stretch where what is held changed: what is gone since then, what came from now on.

    The last stretch of a job that is done ends with its work, and needs no such cut.
    """
    if facts.finished is None or has_finished(record, facts):
        return
    yield from _note_older(context, record, facts, now_hours)
    held = held_now(record, facts)
    if held == record.holding.held and not _came_elsewhere(record, facts, held):
        return
    at_hours = max(_from_hours(record), min(now_hours, _when(record, held, facts, now_hours)))
    yield _cut(context, record, facts, held, at_hours)


def _came_elsewhere(record: JobRecord, facts: BackendStatus, held: Holding) -> bool:
    """Whether as many GPUs are held as before, but in another pool."""
    order = record.holding.order
    assert order is not None
    return held.gpus > 0 and facts.attempt == order.attempt and record.held_pool != order.pool


def note_begun(context: StepContext, record: JobRecord, facts: BackendStatus, by_hours: float) -> Changes:
    """Note from when on a whole set was there, where its engine was killed before it could."""
    order = record.holding.order
    assert order is not None
    yield from _note_older(context, record, facts, by_hours)
    whole = Holding(order.spot_gpus, order.on_demand_gpus)
    unsaid = (
        facts.attempt == order.attempt and record.holding.held is not None and record.holding.held != whole
    )
    there = (facts.spot_gpus, facts.on_demand_gpus) == whole
    if facts.gone:
        there = _from_hours(record) + TIME_TOLERANCE_HOURS < facts.until_hours < math.inf
    if unsaid and there and not order.ending and facts.since_hours < min(by_hours, facts.until_hours):
        yield _cut(context, record, facts, whole, max(_from_hours(record), facts.since_hours))


def _note_older(context: StepContext, record: JobRecord, facts: BackendStatus, by_hours: float) -> Changes:
    """Note when an older set had gone, where the engine that replaced it was killed before it could."""
    order, held = record.holding.order, record.holding.held or NOTHING
    assert order is not None
    older = facts.attempt == order.attempt and facts.attempt > record.holding.held_attempt and held.gpus > 0
    if older and facts.before_until_hours < min(by_hours, facts.since_hours):
        at_hours = max(_from_hours(record), facts.before_until_hours)
        yield _cut(context, record, facts, NOTHING, at_hours, record.holding.held_attempt)


def _when(record: JobRecord, held: Holding, facts: BackendStatus, now_hours: float) -> float:
    """Return when what is held changed: the end of what is gone, the beginning of what came."""
    if facts.gone and not held.gpus:
        return facts.until_hours
    came = record.holding.held is not None and held.gpus > record.holding.held.gpus
    came |= _came_elsewhere(record, facts, held)
    return facts.since_hours if came else now_hours


def _from_hours(record: JobRecord) -> float:
    assert record.holding.begun is not None
    return record.holding.begun.from_hours


def _cut(
    context: StepContext,
    record: JobRecord,
    facts: BackendStatus,
    held: Holding,
    at_hours: float,
    attempt: int | None = None,
) -> Change:
    """End a stretch at a moment, from which on this is held, of the set in the status or another."""
    one = account(context.job_context(record), record, facts, at_hours)
    before: list[Event] = [lived(record, one)] if one.hours > TIME_TOLERANCE_HOURS else []
    of = facts.attempt if attempt is None else attempt
    return Change((*before, _held(record.job, held, at_hours, facts._replace(attempt=of))))


def held_now(record: JobRecord, facts: BackendStatus) -> Holding:
    """Return what is held: of what was ordered, no more than that; of an older set, less and less, unless
    the journal does not say yet that it came.

    The machine of a worker that ended by itself is kept until its whole set is over.
    """
    order, known = record.holding.order, record.holding.held or NOTHING
    assert order is not None
    if order.attempt > facts.attempt > record.holding.held_attempt:
        return Holding(facts.spot_gpus, facts.on_demand_gpus)
    if facts.attempt != order.attempt:
        return Holding(min(facts.spot_gpus, known.spot_gpus), min(facts.on_demand_gpus, known.on_demand_gpus))
    goes = facts.stopped or facts.gone or order.ending or record.holding.held_attempt != order.attempt
    least = NOTHING if goes else known
    return Holding(
        min(order.spot_gpus, max(facts.spot_gpus, least.spot_gpus)),
        min(order.on_demand_gpus, max(facts.on_demand_gpus, least.on_demand_gpus)),
    )


def nothing_yet(
    record: JobRecord, facts: BackendStatus, attempt: int, at_hours: float, gpus: int
) -> list[Event]:
    """Say that nothing is held yet of the first order to a back end that says what is."""
    if facts.finished is None or record.holding.held is not None:
        return []
    return [
        Held(
            job=record.job,
            at_hours=at_hours,
            attempt=attempt,
            spot_gpus=0,
            on_demand_gpus=0,
            pending_gpus=gpus,
        )
    ]


def _held(job: str, held: Holding, at_hours: float, facts: BackendStatus) -> Held:
    return Held(
        job=job,
        at_hours=at_hours,
        attempt=facts.attempt,
        spot_gpus=held.spot_gpus,
        on_demand_gpus=held.on_demand_gpus,
        pending_gpus=facts.pending_gpus,
    )
