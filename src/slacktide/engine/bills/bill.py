"""The bill of a job: what it paid for what, what other policies would have paid, and its audit."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable

from slacktide.core.errors import SlacktideError
from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Lived, Record
from slacktide.journal.state.journal_state import JobRecord
from slacktide.market.pools.places import UsablePool, job_at
from slacktide.physics import ledger
from slacktide.physics.ledger import Audit, Priced
from slacktide.physics.pace import Pace, mean_restart, whole_work
from slacktide.physics.tariff import Tariff
from slacktide.physics.truth import at_pace
from slacktide.policies.base import policies
from slacktide.results.bill import Bill
from slacktide.results.run import Run
from slacktide.simulation import plain
from slacktide.solvers.clairvoyant.clairvoyant import Plan, clairvoyant
from slacktide.solvers.pools.optimum import Schedule, optimum

AS_SAID = 1e-9  # a pace whose logarithm is nearer to 0 than this is that of the file


def bill(record: JobRecord, context: JobContext) -> Bill:
    """Return the bill of a job, ended or not, with what other policies would have paid."""
    job = as_measured(record, context.job)
    alone = on_demand_alone(context, job)
    best = _clairvoyant(context, job) if context.ground is None else _clairvoyant_over_pools(context, job)
    return dataclasses.replace(
        own_bill(record, context.job),
        on_demand_alone_usd=None if alone is None else alone.cost_usd,
        clairvoyant_usd=None if best is None else best.cost_usd,
        clairvoyant_spare_usd=best.spare_usd if isinstance(best, Plan) else None,
    )


def own_bill(record: JobRecord, job: Job) -> Bill:
    """Draw up the bill of a job by itself: its market need not be there any more."""
    finish = math.inf if record.ended is None else record.ended.finish_hours
    return Bill(
        job=record.job,
        status=record.status,
        cost_usd=record.money.bill.cost_usd,
        spot_usd=record.money.bill.spot_usd,
        on_demand_usd=record.money.bill.on_demand_usd,
        spot_gpu_hours=record.money.bill.spot_gpu_hours,
        on_demand_gpu_hours=record.money.bill.on_demand_gpu_hours,
        work_gpu_hours=job.work_gpu_hours,
        done_gpu_hours=record.progress.state.progress_gpu_hours,
        finish_hours=finish,
        deadline_hours=job.deadline_hours,
        on_time=math.isfinite(finish) and job.on_time(finish),
        preemptions=record.holding.preemptions,
        restarts=record.restarts,
        failures=record.progress.failures,
        lost_gpu_hours=record.progress.lost_gpu_hours,
        on_demand_alone_usd=None,
        clairvoyant_usd=None,
        progress_estimated=record.progress.estimated,
        measured_work_gpu_hours=_measured_work(record, job),
        pools=tuple(one.pool for one in record.holding.stations) if record.submitted.pools else (),
        moves=record.holding.moves,
        move_usd=record.money.bill.move_usd,
    )


def measured_pace(record: JobRecord) -> Pace | None:
    """Return the pace that a job was measured to have; None where it reported nothing."""
    pace = record.progress.pace
    return None if pace is None or record.progress.estimated or not 0.0 < pace.hours < math.inf else pace


def _measured_work(record: JobRecord, job: Job) -> float | None:
    pace = measured_pace(record)
    return None if pace is None else whole_work(pace, job.work_gpu_hours)


def as_measured(record: JobRecord, job: Job) -> Job:
    """Return a job as fast as it was measured to be, for others to be compared with; else as its file says.

    Its work stays that of the file, because progress is reported in shares of it; its speedups are measured.
    """
    pace = measured_pace(record)
    if pace is None or max(abs(pace.mean), abs(pace.slope), pace.restarts) < AS_SAID:
        return job
    restart, shrink = mean_restart(pace, job.restart_hours), job.shrink_hours
    if shrink is not None and job.restart_hours > 0:
        shrink *= restart / job.restart_hours
    paced = at_pace(job, math.exp(pace.mean), pace.slope / math.log(2.0))
    return dataclasses.replace(paced, restart_hours=restart, shrink_hours=shrink)


def on_demand_alone(context: JobContext, job: Job) -> Run | None:
    """Return how the whole work would have gone all on demand; None when the market does not reach that far.

    `job` is the context's as it was measured to be.

    Without the maximum cost: the question is what the work costs, not where it would be stopped. No market
    reaches to the end of a job without a deadline.
    """
    if math.isinf(job.deadline_hours):
        return None
    job = dataclasses.replace(job, max_cost_usd=None)
    try:
        if context.ground is not None:
            return _cheapest_alone(context, job)
        return plain.run(job, context.pool, policies.make("on-demand"), start=context.start_slot)
    except SlacktideError:
        return None


def _cheapest_alone(context: JobContext, job: Job) -> Run:
    """Return how the work would have gone all on demand in the pool where that is cheapest."""
    return min(
        (
            plain.run(one, there.pool, policies.make("on-demand"), start=there.own_slot(context.start_slot))
            for one, there in _everywhere(context, job)
        ),
        key=lambda run: (not run.on_time, run.cost_usd),
    )


def _everywhere(context: JobContext, job: Job) -> list[tuple[Job, JobContext]]:
    """Return a job as it was measured to be in each pool that it may use."""
    assert context.ground is not None
    found = []
    for at, one in enumerate(context.ground.places.jobs):
        width = one.widths[0]
        place = UsablePool("", one.widths, context.job.work_hours(width) / one.work_hours(width))
        found.append((job_at(job, place), context.at(at)))
    return found


def _clairvoyant_over_pools(context: JobContext, job: Job) -> Schedule | None:
    """Return what one who knew all pools would have done; None where that cannot be said."""
    assert context.ground is not None
    if math.isinf(job.deadline_hours):
        return None
    jobs, contexts = zip(*_everywhere(context, job), strict=True)
    _, hours, usd, _ = context.ground.places
    try:
        found = optimum(jobs, [there.pool for there in contexts], context.start_slot, hours, usd)
    except SlacktideError:
        return None
    return found if math.isfinite(found.cost_usd) else None


def _clairvoyant(context: JobContext, job: Job) -> Plan | None:
    if math.isinf(job.deadline_hours):
        return None
    try:
        return clairvoyant(job, context.pool, context.start_slot)
    except SlacktideError:
        return None


def audit(record: JobRecord, context: JobContext, records: Iterable[Record]) -> Audit:
    """Price every stretch of a job again at its market's quotes, or for a feed at the journal's."""
    # A row of a feed may come after its slot was decided about, so the journal's quote counts there.
    return audit_at(record, context.tariff, context.quote_at if context.feed is None else None, records)


def audit_at(
    job_record: JobRecord,
    tariff: Tariff,
    quote: Callable[[str, int], Quote] | None,
    records: Iterable[Record],
) -> Audit:
    """Price every stretch of a job again, and see that they join without gap or overlap.

    `quote` says what a pool of the market quoted in a slot; without it the quotes in the journal count.
    """
    lived = [
        (record.seq, record.event)
        for record in records
        if record.event.job == job_record.job and isinstance(record.event, Lived)
    ]
    stretches = [at_market(event.priced, quote) for _, event in lived]
    again = ledger.audit(stretches, lambda payer: tariff, name=lambda number: f"event {lived[number][0]}")
    # Slots without a step are paid as they were held, so for one job alone spot cannot be called oversold.
    return dataclasses.replace(again, gaps=(*again.gaps, *left_out(lived)), oversold=())


def at_market(one: Priced, quote: Callable[[str, int], Quote] | None) -> Priced:
    """Return a stretch with the market's own quote of its slot, where the market can still be read."""
    if quote is None:
        return one
    stretch = one.stretch
    return one._replace(stretch=stretch._replace(quote=quote(stretch.pool, stretch.slot)))


def left_out(lived: list[tuple[int, Lived]]) -> list[str]:
    """Return where time is missing between two stretches though GPUs were held."""
    return [
        f"event {seq}: begins at {later.priced.stretch.from_hours:.6f} h, the last ended at "
        f"{earlier.priced.stretch.to_hours:.6f} h"
        for (_, earlier), (seq, later) in itertools.pairwise(lived)
        if earlier.state.gpus > 0
        and later.priced.stretch.from_hours > earlier.priced.stretch.to_hours + TIME_TOLERANCE_HOURS
    ]
