"""What a job really holds: an order is a wish, what is paid for comes from the back end."""

from __future__ import annotations

import math

from slacktide.backends.base import BackendStatus
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.engine.changes import Change, Changes, lived
from slacktide.engine.job.account import has_finished
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Event, Held
from slacktide.journal.state.journal_state import NOTHING, Holding, JobRecord


def note_held(context: StepContext, record: JobRecord, now_hours: float) -> Changes:
    """End the open stretch when what a job holds has changed, at the time that the back end reports for it.

    Not for a job that is done: its last stretch ends with its work.
    """
    facts = context.status(record.job)
    if facts.finished is None or has_finished(record, facts):
        return
    yield from _note_older(context, record, facts, now_hours)
    held, known, order = held_now(record, facts), record.holding.held, record.order
    # As many GPUs as before, but in another pool.
    elsewhere = held.gpus > 0 and facts.attempt == order.attempt and record.held_pool != order.pool
    if held == known and not elsewhere:
        return
    if facts.gone and not held.gpus:
        changed_hours = facts.until_hours
    else:
        came = elsewhere or (known is not None and held.gpus > known.gpus)
        changed_hours = facts.since_hours if came else now_hours
    yield _cut(context, record, facts, held, min(now_hours, changed_hours))


def note_begun(context: StepContext, record: JobRecord, by_hours: float) -> Changes:
    """Note since when a whole set of workers was there, if the engine was killed before it noted that."""
    facts, order = context.status(record.job), record.order
    yield from _note_older(context, record, facts, by_hours)
    held = record.holding.held
    whole = Holding(order.spot_gpus, order.on_demand_gpus)
    unsaid = facts.attempt == order.attempt and held is not None and held != whole
    there = (facts.spot_gpus, facts.on_demand_gpus) == whole
    if facts.gone:
        there = record.begun.from_hours + TIME_TOLERANCE_HOURS < facts.until_hours < math.inf
    if unsaid and there and not order.ending and facts.since_hours < min(by_hours, facts.until_hours):
        yield _cut(context, record, facts, whole, facts.since_hours)


def _note_older(context: StepContext, record: JobRecord, facts: BackendStatus, by_hours: float) -> Changes:
    """Note when an older set had gone, if the engine that replaced it was killed before it noted that."""
    order, held, attempt = record.order, record.holding.held or NOTHING, record.holding.held_attempt
    older = facts.attempt == order.attempt and facts.attempt > attempt and held.gpus > 0
    if older and facts.before_until_hours < min(by_hours, facts.since_hours):
        yield _cut(context, record, facts._replace(attempt=attempt), NOTHING, facts.before_until_hours)


def _cut(
    context: StepContext, record: JobRecord, of: BackendStatus, held: Holding, at_hours: float
) -> Change:
    """End the open stretch at a moment, but not before it began, and note what is held from then on."""
    at_hours = max(record.begun.from_hours, at_hours)
    account = context.account_at(record, at_hours)
    before: list[Event] = [lived(record, account)] if account.hours > TIME_TOLERANCE_HOURS else []
    noted = Held(
        job=record.job,
        at_hours=at_hours,
        attempt=of.attempt,
        spot_gpus=held.spot_gpus,
        on_demand_gpus=held.on_demand_gpus,
        pending_gpus=of.pending_gpus,
    )
    return Change((*before, noted))


def held_now(record: JobRecord, facts: BackendStatus) -> Holding:
    """Return what a job holds now, never more than was ordered.

    An older set only shrinks, unless the journal has not noted yet that it came. The machine of a worker
    that ended by itself is kept until its whole set is over.
    """
    order, known = record.order, record.holding.held or NOTHING
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
