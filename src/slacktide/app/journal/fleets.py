"""The fleets of a journal: their jobs, budget and spending in the present period, and their course so far."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import NamedTuple

from slacktide.app.journal.listing import held_by
from slacktide.app.journal.timeline import MOST_POINTS
from slacktide.budget.allowance import Allowance
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.journal.events import ClockSet, Record, Remembered, SiteOpened
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.store.base import Store
from slacktide.report.text.sentences.events import policy_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassStatus:
    """The jobs of one class of a fleet."""

    name: str  # empty for jobs that are of no class
    came: int  # how many there ever were
    under_way: int  # how many have not ended
    holding: int  # how many of those hold GPUs now; the others wait
    spot_gpus: int
    on_demand_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """One fleet of a journal, as of its last event."""

    fleet: str  # its name in the journal
    file: str  # the name of its file, without its folder
    allocator: str
    jobs: tuple[str, ...]  # those that have not ended
    came: int  # how many jobs there ever were
    by_class: dict[str, int]  # how many there ever were of each class
    classes: tuple[ClassStatus, ...]
    hours: float  # how long ago the fleet began
    spent_gpu_hours: float
    spent_usd: float  # since the fleet began
    period_budget_usd: float | None
    """What may be spent in this period; None where its budget is not money over time."""
    period_spent_usd: float
    period_since_hours: float | None  # when the period began, in hours since the fleet's beginning
    period_until_hours: float | None  # when the budget is renewed; None where it is renewed all the time
    projected_usd: float | None
    """What the period would cost if it went on as so far; None while it has just begun."""
    usd_per_job_hour: float | None
    """What an hour of a job's waiting is worth to the allocator now; None where it does not say."""
    reserved_usd: float | None
    """Money kept for promised deadlines in case all spot disappears; None where it does not say."""


def fleets(state: JournalState) -> list[FleetStatus]:
    """Return the state of every fleet on the present clock."""
    return [_status(record, state) for record in state.fleets.values()]


def allowance_of(fleet: FleetRecord, state: JournalState) -> Allowance | None:
    """Return what a fleet may spend in each period; None if its budget is not money over time."""
    allowance = parse_fleet(fleet.first.fleet, path=fleet.first.fleet_path).allowance
    return None if allowance is None else placed(allowance, fleet.origin_hours, state.site)


def placed(allowance: Allowance, origin_hours: float, site: SiteOpened | None) -> Allowance:
    """Return an allowance that starts at the market's date at which its fleet's clock began."""
    if site is None:
        return allowance
    start = datetime.fromisoformat(site.start_utc) + timedelta(hours=origin_hours - site.at_hours)
    return dataclasses.replace(allowance, start=start)


def spent_usd_at(fleet: FleetRecord, allowance: Allowance | None, hours: float) -> float:
    """Return what a fleet had spent by an hour of its clock, in the period that this hour is in."""
    since = -math.inf if allowance is None else allowance.period(hours).since_hours
    spending, origin = fleet.spending, fleet.origin_hours
    return spending.since(origin + since) - spending.since(origin + hours)


def _status(fleet: FleetRecord, state: JournalState) -> FleetStatus:
    allowance = allowance_of(fleet, state)
    now = state.now_hours - fleet.origin_hours
    period = None if allowance is None else allowance.period(now)
    since = 0.0 if period is None else max(period.since_hours, 0.0)
    spent = spent_usd_at(fleet, allowance, now)
    ends = math.inf if period is None else period.until_hours
    known = now - since > TIME_TOLERANCE_HOURS and math.isfinite(ends)
    present = [state.jobs[job] for job in fleet.present]
    return FleetStatus(
        fleet=fleet.key,
        file=PurePath(fleet.first.fleet_path).name,
        allocator=policy_name(fleet.first.policy),
        jobs=fleet.present,
        came=fleet.came,
        by_class=dict(fleet.of_class),
        classes=tuple(_class(name, came, present) for name, came in fleet.of_class.items()),
        hours=now,
        spent_gpu_hours=fleet.spent_gpu_hours,
        spent_usd=fleet.spending.total_usd,
        period_budget_usd=None if period is None else period.budget_usd,
        period_spent_usd=spent,
        period_since_hours=None if period is None else period.since_hours,
        period_until_hours=ends if math.isfinite(ends) else None,
        projected_usd=spent / (now - since) * (ends - since) if known else None,
        usd_per_job_hour=fleet.usd_per_job_hour,
        reserved_usd=fleet.reserved_usd,
    )


def _class(name: str, came: int, present: Sequence[JobRecord]) -> ClassStatus:
    held = [held_by(job) for job in present if job.submitted.fleet_class == name]
    return ClassStatus(
        name=name,
        came=came,
        under_way=len(held),
        holding=sum(holding.gpus > 0 for holding in held),
        spot_gpus=sum(holding.spot_gpus for holding in held),
        on_demand_gpus=sum(holding.on_demand_gpus for holding in held),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPoint:
    """The state of a fleet when its allocator decided."""

    hours: float  # since the fleet began
    spent_usd: float  # in the period of that moment, until then
    reserved_usd: float | None  # kept for deadlines that were promised; None where the allocator does not say
    usd_per_job_hour: float | None
    """What an hour of a job's waiting was worth; None where the allocator does not say."""


class Moment(NamedTuple):
    """What an allocator reported with a decision; hours are on the market's clock."""

    at_hours: float
    reserved_usd: float | None
    usd_per_job_hour: float | None


@dataclass(slots=True)
class FleetTimelines:
    """What a journal's allocators reported with their decisions; each call reads only new events."""

    store: Store
    seq: int = 0  # the last event that was read
    _moments: dict[str, list[Moment]] = field(default_factory=dict)

    def of(self, fleet: str) -> list[Moment]:
        """Return the moments of a fleet up to now, thinned out if many; empty for an unknown fleet."""
        for record in self.store.read(after=self.seq, job=""):
            self._apply(record)
        return self._moments.get(fleet, [])

    def _apply(self, record: Record) -> None:
        event, self.seq = record.event, record.seq
        if isinstance(event, ClockSet):  # a new clock: no present fleet was there before it
            self._moments.clear()
        if not isinstance(event, Remembered):
            return
        moments = self._moments.setdefault(event.fleet, [])
        moments.append(Moment(event.at_hours, event.reserved_usd, event.usd_per_job_hour))
        if len(moments) > 2 * MOST_POINTS:
            del moments[-2::-2]  # the newest stays


def fleet_points(fleet: FleetRecord, state: JournalState, moments: Iterable[Moment]) -> list[FleetPoint]:
    """Join what was spent with what the allocator reported; hours are on the fleet's clock."""
    allowance = allowance_of(fleet, state)
    return [
        FleetPoint(
            hours=moment.at_hours - fleet.origin_hours,
            spent_usd=spent_usd_at(fleet, allowance, moment.at_hours - fleet.origin_hours),
            reserved_usd=moment.reserved_usd,
            usd_per_job_hour=moment.usd_per_job_hour,
        )
        for moment in moments
    ]
