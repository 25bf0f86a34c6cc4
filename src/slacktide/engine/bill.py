"""The bill of a job: what it paid for what, beside what others would have paid; and its audit."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable

from slacktide import ledger
from slacktide.backtesting import plain
from slacktide.engine.lane import Lane
from slacktide.engine.world import Track
from slacktide.errors import SlacktideError
from slacktide.events import Lived, Record
from slacktide.ledger import Audit, Priced
from slacktide.policy.base import policies
from slacktide.results.bill import Bill
from slacktide.results.run import Run
from slacktide.solve.clairvoyant import Plan, clairvoyant
from slacktide.tariff import Tariff
from slacktide.types import TIME_TOLERANCE_HOURS, Job, Quote


def bill(track: Track, lane: Lane) -> Bill:
    """Draw up the bill of a job, ended or not, beside what others would have paid."""
    alone, best = on_demand_alone(lane), _clairvoyant(lane)
    return dataclasses.replace(
        own_bill(track, lane.job),
        on_demand_alone_usd=None if alone is None else alone.cost_usd,
        clairvoyant_usd=None if best is None else best.cost_usd,
        clairvoyant_spare_usd=None if best is None else best.spare_usd,
    )


def own_bill(track: Track, job: Job) -> Bill:
    """Draw up the bill of a job by itself: its market need not be there any more."""
    finish = math.inf if track.ended is None else track.ended.finish_hours
    return Bill(
        job=track.job,
        status=track.status,
        cost_usd=track.bill.cost_usd,
        spot_usd=track.bill.spot_usd,
        on_demand_usd=track.bill.on_demand_usd,
        spot_gpu_hours=track.bill.spot_gpu_hours,
        on_demand_gpu_hours=track.bill.on_demand_gpu_hours,
        work_gpu_hours=job.work_gpu_hours,
        done_gpu_hours=track.state.progress_gpu_hours,
        finish_hours=finish,
        deadline_hours=job.deadline_hours,
        on_time=math.isfinite(finish) and job.on_time(finish),
        preemptions=track.preemptions,
        restarts=track.restarts,
        failures=track.failures,
        lost_gpu_hours=track.lost_gpu_hours,
        on_demand_alone_usd=None,
        clairvoyant_usd=None,
        progress_estimated=track.estimated,
    )


def on_demand_alone(lane: Lane) -> Run | None:
    """Return how the whole work would have gone all on demand; None when the market does not reach that far.

    Without the maximum cost: the question is what the work costs, not where it would be stopped. No market
    reaches to the end of a job without a deadline.
    """
    if math.isinf(lane.job.deadline_hours):
        return None
    job = dataclasses.replace(lane.job, max_cost_usd=None)
    try:
        return plain.run(job, lane.pool, policies.make("on-demand"), start=lane.start_slot)
    except SlacktideError:
        return None


def _clairvoyant(lane: Lane) -> Plan | None:
    if math.isinf(lane.job.deadline_hours):
        return None
    try:
        return clairvoyant(lane.job, lane.pool, lane.start_slot)
    except SlacktideError:
        return None


def audit(track: Track, lane: Lane, records: Iterable[Record]) -> Audit:
    """Price every stretch of a job again at its market's quotes, or for a feed at the journal's."""
    # A row of a feed may come after its slot was decided about, so the journal's quote counts there.
    return audit_at(track, lane.tariff, lane.quote if lane.feed is None else None, records)


def audit_at(
    track: Track, tariff: Tariff, quote: Callable[[int], Quote] | None, records: Iterable[Record]
) -> Audit:
    """Price every stretch of a job again, and see that they join without gap or overlap.

    `quote` says what the market quoted in a slot; without it the quotes in the journal count.
    """
    told = [
        (record.seq, record.event)
        for record in records
        if record.event.job == track.job and isinstance(record.event, Lived)
    ]
    stretches = [at_market(event.priced, quote) for _, event in told]
    again = ledger.audit(stretches, lambda payer: tariff, name=lambda number: f"event {told[number][0]}")
    # Slots that nobody saw are paid as they were held, so one job by itself is not blamed for its spot.
    return dataclasses.replace(again, gaps=(*again.gaps, *left_out(told)), oversold=())


def at_market(one: Priced, quote: Callable[[int], Quote] | None) -> Priced:
    """Return a stretch with the market's own quote of its slot, where there is a market that can be asked."""
    return one if quote is None else one._replace(stretch=one.stretch._replace(quote=quote(one.stretch.slot)))


def left_out(told: list[tuple[int, Lived]]) -> list[str]:
    """Return where time is missing between two stretches though GPUs were held."""
    return [
        f"event {seq}: begins at {later.priced.stretch.from_hours:.6f} h, the last ended at "
        f"{earlier.priced.stretch.to_hours:.6f} h"
        for (_, earlier), (seq, later) in itertools.pairwise(told)
        if earlier.state.gpus > 0
        and later.priced.stretch.from_hours > earlier.priced.stretch.to_hours + TIME_TOLERANCE_HOURS
    ]
