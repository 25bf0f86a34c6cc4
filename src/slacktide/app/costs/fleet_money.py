"""The money of a journal's fleets: what a period allows, what was spent of it, and where that leads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePath

from slacktide.app.journal.listing import held_by
from slacktide.budget.allowance import Allowance
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.journal.events import SiteOpened
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import JobRecord, JournalState
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
    """What is kept for deadlines that were promised, should all spot be gone; None where it does not say."""


def fleets(state: JournalState) -> list[FleetStatus]:
    """Return the money of every fleet on the present clock."""
    return [_status(record, state) for record in state.fleets.values()]


def allowance_of(fleet: FleetRecord, state: JournalState) -> Allowance | None:
    """Return what a fleet may spend when, on its own clock; None where its budget is not money over time."""
    found = parse_fleet(fleet.first.fleet, path=fleet.first.fleet_path).allowance
    return None if found is None else placed(found, fleet.origin_hours, state.site)


def placed(allowance: Allowance, origin_hours: float, site: SiteOpened | None) -> Allowance:
    """Return an allowance that knows at which time of the market the clock of its fleet began."""
    if site is None:
        return allowance
    start = datetime.fromisoformat(site.start_utc) + timedelta(hours=origin_hours - site.at_hours)
    return dataclasses.replace(allowance, start=start)


def spent_usd_at(fleet: FleetRecord, allowance: Allowance | None, hours: float) -> float:
    """Return what a fleet had spent at an hour of its clock in the period of that moment."""
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
    return FleetStatus(
        fleet=fleet.key,
        file=PurePath(fleet.first.fleet_path).name,
        allocator=policy_name(fleet.first.policy),
        jobs=fleet.present,
        came=fleet.came,
        by_class=dict(fleet.of_class),
        classes=_classes(fleet, state),
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


def _classes(fleet: FleetRecord, state: JournalState) -> tuple[ClassStatus, ...]:
    """Count the jobs of each class, in the order in which the first of each came."""
    present = [state.jobs[job] for job in fleet.present]
    return tuple(_class(name, came, present) for name, came in fleet.of_class.items())


def _class(name: str, came: int, present: Sequence[JobRecord]) -> ClassStatus:
    held = [held_by(job) for job in present if job.submitted.fleet_class == name]
    return ClassStatus(
        name=name,
        came=came,
        under_way=len(held),
        holding=sum(one.gpus > 0 for one in held),
        spot_gpus=sum(one.spot_gpus for one in held),
        on_demand_gpus=sum(one.on_demand_gpus for one in held),
    )
