"""What the allocator of a fleet on a market is shown: the pools, the money, and all jobs at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slacktide.allocators.site.job_tables import JobTables, Kinds, work_of
from slacktide.allocators.site.spot import Spot
from slacktide.allocators.view import FleetView, JobColumns, Money, SiteView
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.engine.fleet.fleets import LiveFleet
from slacktide.engine.fleet.kinds import lives_of
from slacktide.engine.pending_decisions import PendingDecision, Shown, columns, whole
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Lived
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.market.market_view import MarketView, PoolView, offer
from slacktide.physics.ledger import Priced


def site_view(
    context: StepContext,
    fleet: FleetRecord,
    run: LiveFleet,
    pending: Sequence[PendingDecision],
    spot: Spot,
    now_hours: float,
) -> FleetView:
    """Return what may be known of a fleet at a moment; `spot` says who holds what, of all jobs."""
    market, job_contexts = run.market, [context.job_context(decision.record) for decision in pending]
    assert market is not None
    paces = [context.belief(decision) for decision in pending]
    kinds, jobs = lives_of(pending, job_contexts, paces, run.tables, fleet.origin_hours, run.templates)
    hours = market.hours(now_hours, fleet.origin_hours)
    slot = market.slot(hours)
    moment, gpus = market.at(slot), int(jobs.gpus.sum())
    site = SiteView(
        slot=slot,
        slot_hours=market.slot_hours,
        next_hours=(slot + 1) * market.slot_hours,
        pools=_offered(moment, spot, [decision.record.job for decision in pending]),
        kinds=kinds,
        jobs=jobs,
        money=money(context, fleet, run, pending, now_hours),
        known=moment,
        on_demand_gpus=run.on_demand_gpus,
    )
    return FleetView(
        now_hours=hours,
        fleet=run.fleet,
        jobs=_columns(context, pending, kinds, jobs),
        due=range(len(pending)),
        ready_gpus=gpus,
        rented_gpus=gpus,
        spent_gpu_hours=fleet.spent_gpu_hours,
        spot=spot,
        shown=Shown(pending, context.job_context),
        site=site,
    )


def _offered(moment: MarketView, spot: Spot, jobs: Sequence[str]) -> tuple[PoolView, ...]:
    """Return what pools offer to all these jobs together: what others hold is gone from it."""
    others, on_demand = spot.outside(jobs)
    return tuple(
        pool._replace(quote=offer(pool.quote, others.get(pool.name, 0), on_demand.get(pool.name, 0)))
        for pool in moment
    )


def _columns(
    context: StepContext, pending: Sequence[PendingDecision], kinds: Kinds, jobs: JobTables
) -> JobColumns:
    return columns(pending, context.job_context)._replace(
        ids=whole([decision.record.number for decision in pending]),
        kind=jobs.said_kind,
        number=whole([decision.record.number_of_class for decision in pending]),
        submitted_hours=jobs.submitted_hours,
        spot_gpus=jobs.spot_gpus,
        on_demand_gpus=jobs.on_demand_gpus,
        pause_hours=jobs.pause_hours,
        work_gpu_hours=work_of(kinds, jobs),
    )


def money(
    context: StepContext,
    fleet: FleetRecord,
    run: LiveFleet,
    pending: Sequence[PendingDecision],
    now_hours: float,
) -> Money:
    """Return what a fleet may spend in the present period, and what it has up to this moment.

    What was spent under the same file before it was changed is spent too; where periods are counted from the
    beginning of a fleet, so begin anew with it, what was spent so in the length of one.
    """
    period = run.allowance.period(now_hours - fleet.origin_hours)
    since = period.since_hours + fleet.origin_hours
    running = list(_running(context, fleet, pending, now_hours))
    after = (one for one in running if one.stretch.to_hours > since + TIME_TOLERANCE_HOURS)
    fixed = run.allowance.renewal == "fixed"
    before = _spent_before(
        context, fleet, now_hours - run.allowance.period_hours if fixed else since, now_hours
    )
    return Money(
        budget_usd=period.budget_usd,
        spent_usd=fleet.spending.since(since) + sum(one.charge.usd for one in after) + before,
        usd_per_hour=run.allowance.usd_per_hour,
        since_hours=period.since_hours,
        until_hours=period.until_hours,
        ever_usd=fleet.spending.total_usd + sum(one.charge.usd for one in running),
    )


def _spent_before(context: StepContext, fleet: FleetRecord, since_hours: float, now_hours: float) -> float:
    """Return what other fleets of the same file, as it was before it was changed or is by now, have spent."""
    path, spent = fleet.first.fleet_path, 0.0
    for other in context.state.fleets.values():
        if path and other.key != fleet.key and other.first.fleet_path == path:
            running = _running(context, other, (), now_hours)
            spent += other.spending.since(since_hours)
            spent += sum(one.charge.usd for one in running if one.stretch.to_hours > since_hours)
    return spent


def _running(
    context: StepContext, fleet: FleetRecord, pending: Sequence[PendingDecision], now_hours: float
) -> Iterator[Priced]:
    """Yield stretches up to now that are not written yet: also of jobs that are being let go."""
    for event in (event for decision in pending for event in decision.before):
        if isinstance(event, Lived):
            yield event.priced
    pending_jobs = {decision.record.job for decision in pending}
    others = (context.state.jobs[name] for name in fleet.present if name not in pending_jobs)
    for one in (context.account(job, now_hours) for job in others):
        if one is not None:
            yield one.priced
