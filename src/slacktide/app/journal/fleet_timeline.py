"""The course of a fleet so far: what it kept for promised deadlines, and what an hour was worth to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.app.costs.fleet_money import allowance_of, spent_usd_at
from slacktide.app.journal.timeline import MOST_POINTS
from slacktide.journal.events import ClockSet, Record, Remembered
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPoint:
    """The state of a fleet when its allocator decided."""

    hours: float  # since the fleet began
    spent_usd: float  # in the period of that moment, until then
    reserved_usd: float | None  # kept for deadlines that were promised; None where the allocator does not say
    usd_per_job_hour: float | None
    """What an hour of a job's waiting was worth; None where the allocator does not say."""


class Moment(NamedTuple):
    """What an allocator reported with a decision, on the market's clock."""

    at_hours: float
    reserved_usd: float | None
    usd_per_job_hour: float | None


@dataclass(slots=True)
class FleetTimelines:
    """What a journal's allocators reported with their decisions, read on from where it was left."""

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
        if isinstance(event, ClockSet):  # another clock: what was before is of no fleet of today
            self._moments.clear()
        if not isinstance(event, Remembered):
            return
        moments = self._moments.setdefault(event.fleet, [])
        moments.append(Moment(event.at_hours, event.reserved_usd, event.usd_per_job_hour))
        if len(moments) > 2 * MOST_POINTS:
            del moments[-2::-2]  # the newest stays


def drawn(fleet: FleetRecord, state: JournalState, moments: Iterable[Moment]) -> list[FleetPoint]:
    """Join what was spent with what the allocator reported, on the clock of its fleet."""
    allowance = allowance_of(fleet, state)
    return [
        FleetPoint(
            hours=one.at_hours - fleet.origin_hours,
            spent_usd=spent_usd_at(fleet, allowance, one.at_hours - fleet.origin_hours),
            reserved_usd=one.reserved_usd,
            usd_per_job_hour=one.usd_per_job_hour,
        )
        for one in moments
    ]
