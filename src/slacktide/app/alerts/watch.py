"""Which events of a journal somebody must be told: a fold over its records, and nothing else.

Whoever folds the same records gets the same alerts with the same ids. What the fold must know is little, so
it is kept whole with every alert: jobs that have not ended, and what fleets spent in their present period.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeAlias

from slacktide.app.alerts.alert import Alert, Detail, Kind, name_of
from slacktide.app.alerts.money import WatchedFleet, crossed, said
from slacktide.app.journal.listing import owner_of
from slacktide.core.errors import SlacktideError
from slacktide.core.units import format_usd
from slacktide.files.job import parse_job
from slacktide.journal.events import (
    ClockSet,
    Ended,
    FeedTroubled,
    HealthChanged,
    JournalMade,
    Leaked,
    Lived,
    Record,
    SiteOpened,
    Submitted,
)
from slacktide.journal.state.fleet_record import key_of
from slacktide.report import words
from slacktide.report.text.sentences.events import sentence
from slacktide.report.wire import values

OUTLOOKS: dict[str, Kind] = {"at-risk": "at-risk", "late-expected": "late", "late": "late"}
"""Of outlooks of a job that somebody must be told: what kind of alert each is."""
ASKED_FOR = ("cancelled",)
"""Ends that need not be told: somebody wanted them."""
BackendStatus: TypeAlias = Mapping[str, Detail]


@dataclass(slots=True)
class WatchedJob:
    """A job that has not ended, as far as alerts need it."""

    owner: str
    began_hours: float
    deadline_hours: float
    """From its beginning on; infinite for a job without a deadline."""
    fleet: str
    """The fleet that it is of; empty for a job by itself."""
    max_cost_usd: float | None = None
    cost_usd: float = 0.0


@dataclass(slots=True)
class Watch:
    """All that is known of a journal up to one of its events, as far as alerts need it."""

    seq: int = 0
    journal: str = ""
    feed_troubled: bool = False
    site: SiteOpened | None = None
    jobs: dict[str, WatchedJob] = field(default_factory=dict)
    fleets: dict[str, WatchedFleet] = field(default_factory=dict)

    def hear(self, record: Record) -> list[Alert]:
        """Take the next event into account, and return what is to be told of it."""
        self.seq = record.seq
        match record.event:
            case JournalMade() as event:
                self.journal = self.journal or event.id
            case ClockSet():
                self.site, self.fleets, self.feed_troubled = None, {}, False
            case SiteOpened() as event:
                self.site = event
            case Submitted() as event:
                self._submitted(event)
            case FeedTroubled() | Leaked():
                return list(self._troubled(record))
            case HealthChanged() | Ended() | Lived() as event if event.job in self.jobs:
                return list(self._of_job(record, self.jobs[event.job]))
        return []

    def _submitted(self, event: Submitted) -> None:
        fleet = key_of(event) if event.fleet else ""
        if fleet and fleet not in self.fleets:
            self.fleets[fleet] = WatchedFleet.of(event)
        self.jobs[event.job] = WatchedJob(
            owner=owner_of(event),
            began_hours=event.at_hours,
            deadline_hours=event.deadline_hours,
            fleet=fleet,
            max_cost_usd=_max_cost_usd(event),
        )

    def _troubled(self, record: Record) -> Iterator[Alert]:
        match record.event:
            case FeedTroubled() as event:
                is_new, self.feed_troubled = not self.feed_troubled, bool(event.why)
                if is_new and event.why:
                    yield self._alert(record, "feed-stale", sentence(event), {"why": event.why})
            case Leaked() as event:
                names = (
                    "machine",
                    "ticket",
                    "capacity",
                    "pool",
                    "gpus",
                    "usd_per_hour",
                    "stray_hours",
                    "why",
                )
                facts = {name: getattr(event, name) for name in names}
                yield self._alert(record, "machine-leaked", sentence(event), facts)

    def _of_job(self, record: Record, job: WatchedJob) -> Iterator[Alert]:
        match record.event:
            case HealthChanged() as event if event.health in OUTLOOKS:
                text = f"{words.plain(event.job, 60)} {sentence(event)}"
                facts = {"health": event.health, "why": event.why}
                yield self._job_alert(record, OUTLOOKS[event.health], text, job, facts)
            case Lived() as event:
                yield from self._paid(record, event, job)
            case Ended() as event:
                del self.jobs[event.job]
                if event.status not in ASKED_FOR:
                    yield self._ended(record, event, job)

    def _ended(self, record: Record, event: Ended, job: WatchedJob) -> Alert:
        """Tell the end of a job: done where its work is, however late, and failed where it is not."""
        is_done = math.isfinite(event.finish_hours)
        text = f"{words.plain(event.job, 60)}: {sentence(event)}; it cost {format_usd(job.cost_usd)}"
        facts = {
            "status": event.status,
            "why": event.why,
            "finish_hours": event.finish_hours if is_done else None,
        }
        return self._job_alert(record, "done" if is_done else "failed", text, job, facts)

    def _paid(self, record: Record, event: Lived, job: WatchedJob) -> Iterator[Alert]:
        before, job.cost_usd = job.cost_usd, event.state.cost_usd
        level, most = crossed(before, job.cost_usd, job.max_cost_usd), job.max_cost_usd
        if level is not None and most is not None:
            text = said(words.plain(event.job, 60), level, job.cost_usd, most, "its max_cost")
            facts: BackendStatus = {
                "of": "job",
                "share": level,
                "spent_usd": job.cost_usd,
                "budget_usd": most,
            }
            yield self._job_alert(record, "budget", text, job, facts, part="job")
        if job.fleet in self.fleets:
            yield from self._fleet_paid(record, event, self.fleets[job.fleet])

    def _fleet_paid(self, record: Record, event: Lived, fleet: WatchedFleet) -> Iterator[Alert]:
        others = [other for other in self.fleets.values() if other is not fleet and other.path == fleet.path]
        passed = fleet.paid(event, self.site, others if fleet.path else ())
        if passed is None:
            return
        who = f"the fleet of {words.plain(fleet.name, 60)}"
        text = said(who, passed.share, passed.spent_usd, passed.budget_usd, "its budget")
        left = "" if passed.left_hours is None else f"; it is renewed in {words.rounded(passed.left_hours)}"
        facts: BackendStatus = {
            "of": "fleet", "fleet": fleet.name, "share": passed.share, "spent_usd": passed.spent_usd,
            "budget_usd": passed.budget_usd, "renewed_in_hours": passed.left_hours,
        }  # fmt: skip
        yield self._alert(record, "budget", text + left, facts, part="fleet")

    def _job_alert(
        self, record: Record, kind: Kind, text: str, job: WatchedJob, facts: BackendStatus, part: str = ""
    ) -> Alert:
        """Return an alert about a job, with what is told with every one of them."""
        always = {
            "elapsed_hours": record.event.at_hours - job.began_hours,
            "deadline_hours": job.deadline_hours if math.isfinite(job.deadline_hours) else None,
            "cost_usd": job.cost_usd,
        }
        made = self._alert(record, kind, text, {**always, **facts}, part)
        return replace(made, job=record.event.job, owner=job.owner)

    def _alert(self, record: Record, kind: Kind, text: str, facts: BackendStatus, part: str = "") -> Alert:
        return Alert(
            id=name_of(self.journal, record, f"{kind}-{part}" if part else kind),
            kind=kind,
            journal=self.journal,
            seq=record.seq,
            time_utc=values.utc(record.time_utc),
            text=text,
            details=facts,
        )


def _max_cost_usd(event: Submitted) -> float | None:
    """Return what a job's file lets it cost; most files do not say, and then need not be read."""
    if "max_cost" not in event.text:
        return None
    try:
        return parse_job(event.text, path=event.path, now=datetime.now(UTC)).job.max_cost_usd
    except SlacktideError:  # another version took it in
        return None
