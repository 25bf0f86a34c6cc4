"""Refuses a job of a fleet whose allocator cannot promise what the job's file demands."""

from __future__ import annotations

from collections.abc import Iterator

from slacktide.allocators.site.spot import Spot
from slacktide.allocators.view import Admitting
from slacktide.core.errors import InfeasibleError
from slacktide.core.types import Refusal
from slacktide.core.units import format_count, format_duration, format_usd
from slacktide.engine.changes import lived
from slacktide.engine.fleet.site import site_view
from slacktide.engine.pending_decisions import PendingDecision
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Submitted
from slacktide.journal.state.fleet_record import FleetRecord, key_of
from slacktide.journal.state.journal_state import Begun, JobRecord
from slacktide.physics import progress as physics


def check_admitted(context: StepContext, submitted: Submitted) -> None:
    """Raise InfeasibleError where the allocator of a job's fleet cannot promise what the job requests."""
    # As the journal has it, or as it would begin with this job.
    fleet = context.state.fleets.get(key_of(submitted)) or FleetRecord.of(submitted, context.state.seq)
    run = context.fleets.run(fleet)
    if run.market is None or not isinstance(run.allocator, Admitting):
        return
    now_hours, spot = submitted.at_hours, context.spot_at(submitted.at_hours)
    for pool in run.market.at(run.market.slot(run.market.hours(now_hours, fleet.origin_hours))):
        spot.lose(pool.name, pool.quote.spot_gpus, context.state.unended)
    coming = JobRecord.of(submitted)
    fleet.number(coming)
    pending = [*_present(context, fleet, spot, now_hours), _waiting(context, coming, now_hours)]
    refusal = run.allocator.admit(site_view(context, fleet, pending, spot, now_hours))
    if refusal is not None:
        raise InfeasibleError(f"{submitted.path}: {sentence(refusal)}")


def sentence(refusal: Refusal) -> str:
    """Say why a job cannot be promised, and the nearest that can."""
    nearest = []
    if refusal.deadline_hours is not None:
        nearest.append(f"a deadline of {format_duration(refusal.deadline_hours)}")
    if refusal.budget_usd is not None:
        nearest.append(f"a budget of {format_usd(refusal.budget_usd)} a period")
    if refusal.gpus is not None:
        nearest.append(f"a width of {format_count(refusal.gpus, 'GPU')}")
    return f"{refusal.why}; it could be promised with {' or '.join(nearest)}" if nearest else refusal.why


def _present(
    context: StepContext, fleet: FleetRecord, spot: Spot, now_hours: float
) -> Iterator[PendingDecision]:
    """Yield where the jobs of a fleet stand; spot that a new slot takes is already gone."""
    for record in context.members(fleet):
        account = context.account(record, now_hours)
        if record.requests.ending is not None or (account is not None and account.state.ended):
            continue
        if account is None:
            yield _waiting(context, record, now_hours)
            continue
        left = physics.lose(context.job_context(record).terms, account.state, spot.held(record.job))
        begun = record.begun._replace(from_hours=account.to_hours)
        yield PendingDecision(record, left, begun, (lived(record, account),), inside=True)


def _waiting(context: StepContext, record: JobRecord, now_hours: float) -> PendingDecision:
    job_context = context.job_context(record)
    slot = job_context.slot(now_hours)
    return PendingDecision(record, record.progress.state, Begun(slot, now_hours, job_context.quote(slot)))
