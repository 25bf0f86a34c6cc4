"""The bill of a job: what it paid for what, beside what others would have paid; and its audit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

from slacktide import physics
from slacktide.backtesting import plain
from slacktide.engine.lane import Lane
from slacktide.engine.world import Track
from slacktide.errors import SlacktideError
from slacktide.events import Decided, Lived, Record
from slacktide.policy.base import policies
from slacktide.solve.clairvoyant import clairvoyant
from slacktide.types import Quote

CENT = 0.005


@dataclass(frozen=True, slots=True)
class Bill:
    """What a job cost, to the cent, and what it might have."""

    job: str
    status: str
    cost_usd: float
    spot_usd: float
    on_demand_usd: float
    spot_gpu_hours: float
    on_demand_gpu_hours: float
    work_gpu_hours: float
    done_gpu_hours: float
    finish_hours: float
    """Infinite when the work was not done."""
    deadline_hours: float
    on_time: bool
    preemptions: int
    restarts: int
    failures: int
    lost_gpu_hours: float
    """Work that preemptions took back."""
    on_demand_alone_usd: float | None
    """What the same work would have cost all on demand; None when the market does not reach that far."""
    clairvoyant_usd: float | None
    """What one who knew the market would have paid."""


def bill(track: Track, lane: Lane) -> Bill:
    """Draw up the bill of a job, ended or not."""
    finish = math.inf if track.ended is None else track.ended.finish_hours
    alone = on_demand_alone(lane)
    return Bill(
        job=track.job,
        status=track.status,
        cost_usd=track.spot_usd + track.on_demand_usd,
        spot_usd=track.spot_usd,
        on_demand_usd=track.on_demand_usd,
        spot_gpu_hours=track.spot_gpu_hours,
        on_demand_gpu_hours=track.on_demand_gpu_hours,
        work_gpu_hours=lane.job.work_gpu_hours,
        done_gpu_hours=track.state.progress_gpu_hours,
        finish_hours=finish,
        deadline_hours=lane.job.deadline_hours,
        on_time=lane.job.on_time(finish),
        preemptions=track.preemptions,
        restarts=track.restarts,
        failures=track.failures,
        lost_gpu_hours=track.lost_gpu_hours,
        on_demand_alone_usd=None if alone is None else alone.cost_usd,
        clairvoyant_usd=_clairvoyant(lane),
    )


def on_demand_alone(lane: Lane) -> plain.Run | None:
    """Return how the whole work would have gone all on demand; None when the market does not reach that far.

    Without the greatest cost: the question is what the work costs, not where it would be stopped.
    """
    job = dataclasses.replace(lane.job, max_cost_usd=None)
    try:
        return plain.run(job, lane.pool, policies.make("on-demand"), start=lane.start_slot)
    except SlacktideError:
        return None


def _clairvoyant(lane: Lane) -> float | None:
    try:
        return clairvoyant(lane.job, lane.pool, lane.start_slot).cost_usd
    except SlacktideError:
        return None


@dataclass(frozen=True, slots=True)
class Audit:
    """A second opinion on a bill: every stretch priced again from the market."""

    cost_usd: float
    """The sum over the stretches, at the market's prices."""
    gaps: tuple[str, ...]
    """Stretches that overlap, or leave time out while GPUs were held."""
    wrong: tuple[str, ...]
    """Stretches whose entry differs by a cent or more from GPUs times price times hours."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.gaps and not self.wrong


def audit(track: Track, lane: Lane, records: Iterable[Record]) -> Audit:
    """Price every stretch of a job again, and see that they join without gap or overlap."""
    gaps, wrong, total = list[str](), list[str](), 0.0
    until, held = 0.0, 0
    quotes: dict[int, Quote] = {}
    for record in records:
        event = record.event
        if event.job == track.job and isinstance(event, Decided) and lane.feed is not None:
            quotes[event.slot] = event.quote  # a row of a feed may come after its slot was decided
        if event.job != track.job or not isinstance(event, Lived):
            continue
        if event.from_hours < until - 1e-6 or (event.from_hours > until + 1e-6 and held > 0):
            gaps.append(
                f"event {record.seq}: begins at {event.from_hours:.6f} h, the last ended at {until:.6f} h"
            )
        hours = event.to_hours - event.from_hours
        quote = quotes.get(event.slot) or lane.quote(event.slot)
        billed = lane.terms.slot_hours if lane.terms.whole_slots and hours > 0 else hours
        usd = physics.usd_per_hour(quote, event.spot_gpus, event.on_demand_gpus) * billed
        if abs(usd - event.spot_usd - event.on_demand_usd) >= CENT:
            wrong.append(f"event {record.seq}: {event.spot_usd + event.on_demand_usd:.4f} USD, not {usd:.4f}")
        total += usd
        until, held = event.to_hours, event.state.gpus
    return Audit(total, tuple(gaps), tuple(wrong))
