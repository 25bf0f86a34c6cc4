"""Finds the events of a journal that lead to alerts, such as a failed job or a spent budget: a pure fold.

Folding the same records gives the same alerts with the same ids. The state of the fold is small, so it is
stored whole with every alert: jobs that have not ended, and what fleets spent in their present period.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

from slacktide.app.alerts.alert import Alert, Detail, Kind, name_of
from slacktide.app.journal.fleets import placed
from slacktide.app.journal.listing import owner_of
from slacktide.budget.allowance import Allowance, Spending
from slacktide.core.errors import SlacktideError
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.core.units import format_usd
from slacktide.files.fleet.fleet import parse_fleet
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
from slacktide.physics.tariff import MONEY_TOLERANCE_USD
from slacktide.report import words
from slacktide.report.text.sentences.events import sentence
from slacktide.report.wire import values

OUTLOOKS: dict[str, Kind] = {"at-risk": "at-risk", "late-expected": "late", "late": "late"}
"""The outlooks of a job that lead to an alert, and its kind."""
REQUESTED_ENDS = ("cancelled",)  # ends that lead to no alert: a user wanted them
Facts: TypeAlias = Mapping[str, Detail]
LEVELS = (0.5, 0.8, 1.0)
LEAKED_FACTS = ("machine", "ticket", "capacity", "pool", "gpus", "usd_per_hour", "stray_hours", "why")
KEPT_FLEETS = 64
KEPT_TIMES = 2048  # times of spending that are kept before old ones are dropped


@dataclass(slots=True)
class WatchedJob:
    """A job that has not ended, as far as alerts need it."""

    owner: str
    began_hours: float
    deadline_hours: float  # from its beginning on; infinite for a job without a deadline
    fleet: str  # the fleet that it belongs to; empty for a job by itself
    max_cost_usd: float | None = None
    cost_usd: float = 0.0


@dataclass(slots=True)
class Watch:
    """What alerts need to know about a journal up to one of its events: the state of the fold."""

    seq: int = 0
    journal: str = ""
    feed_troubled: bool = False
    site: SiteOpened | None = None
    jobs: dict[str, WatchedJob] = field(default_factory=dict)
    fleets: dict[str, WatchedFleet] = field(default_factory=dict)

    def apply(self, record: Record) -> list[Alert]:
        """Take the next event into account, and return the alerts that it leads to."""
        self.seq = record.seq
        return list(self._alerts(record))

    def _alerts(self, record: Record) -> Iterator[Alert]:
        match record.event:
            case JournalMade() as event:
                self.journal = self.journal or event.id
            case ClockSet():
                self.site, self.fleets, self.feed_troubled = None, {}, False
            case SiteOpened() as event:
                self.site = event
            case Submitted() as event:
                self._submitted(event)
            case FeedTroubled() as event:
                is_new, self.feed_troubled = not self.feed_troubled, bool(event.why)
                if is_new and event.why:
                    yield self._alert(record, "feed-stale", sentence(event), {"why": event.why})
            case Leaked() as event:
                facts = {name: getattr(event, name) for name in LEAKED_FACTS}
                yield self._alert(record, "machine-leaked", sentence(event), facts)
            case HealthChanged() as event if event.job in self.jobs and event.health in OUTLOOKS:
                text = f"{words.plain(event.job, 60)} {sentence(event)}"
                facts = {"health": event.health, "why": event.why}
                yield self._job_alert(record, OUTLOOKS[event.health], text, self.jobs[event.job], facts)
            case Lived() as event if event.job in self.jobs:
                yield from self._paid(record, event, self.jobs[event.job])
            case Ended() as event if event.job in self.jobs:
                job = self.jobs.pop(event.job)
                if event.status not in REQUESTED_ENDS:
                    yield self._ended(record, event, job)

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

    def _ended(self, record: Record, event: Ended, job: WatchedJob) -> Alert:
        """Return the alert about the end of a job: done if its work is, however late; otherwise failed."""
        finish = event.finish_hours if math.isfinite(event.finish_hours) else None
        text = f"{words.plain(event.job, 60)}: {sentence(event)}; it cost {format_usd(job.cost_usd)}"
        facts = {"status": event.status, "why": event.why, "finish_hours": finish}
        return self._job_alert(record, "failed" if finish is None else "done", text, job, facts)

    def _paid(self, record: Record, event: Lived, job: WatchedJob) -> Iterator[Alert]:
        before, job.cost_usd = job.cost_usd, event.state.cost_usd
        level, most = crossed(before, job.cost_usd, job.max_cost_usd), job.max_cost_usd
        if level is not None and most is not None:
            text = _spent(words.plain(event.job, 60), level, job.cost_usd, most, "its max_cost")
            facts: Facts = {"of": "job", "share": level, "spent_usd": job.cost_usd, "budget_usd": most}
            yield self._job_alert(record, "budget", text, job, facts, part="job")
        if job.fleet in self.fleets:
            yield from self._fleet_paid(record, event, self.fleets[job.fleet])

    def _fleet_paid(self, record: Record, event: Lived, fleet: WatchedFleet) -> Iterator[Alert]:
        others = [other for other in self.fleets.values() if other is not fleet and other.path == fleet.path]
        passed = fleet.paid(event, self.site, others if fleet.path else ())
        if passed is None:
            return
        who = f"the fleet of {words.plain(fleet.name, 60)}"
        text = _spent(who, passed.share, passed.spent_usd, passed.budget_usd, "its budget")
        left = "" if passed.left_hours is None else f"; it is renewed in {words.rounded(passed.left_hours)}"
        facts: Facts = {
            "of": "fleet", "fleet": fleet.name, "share": passed.share, "spent_usd": passed.spent_usd,
            "budget_usd": passed.budget_usd, "renewed_in_hours": passed.left_hours,
        }  # fmt: skip
        yield self._alert(record, "budget", text + left, facts, part="fleet")

    def _job_alert(
        self, record: Record, kind: Kind, text: str, job: WatchedJob, facts: Facts, part: str = ""
    ) -> Alert:
        always = {
            "elapsed_hours": record.event.at_hours - job.began_hours,
            "deadline_hours": job.deadline_hours if math.isfinite(job.deadline_hours) else None,
            "cost_usd": job.cost_usd,
        }
        made = self._alert(record, kind, text, {**always, **facts}, part)
        return replace(made, job=record.event.job, owner=job.owner)

    def _alert(self, record: Record, kind: Kind, text: str, facts: Facts, part: str = "") -> Alert:
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
    """Return the `max_cost` of a job's file; most files have none, and then need not be read."""
    if "max_cost" not in event.text:
        return None
    try:
        return parse_job(event.text, path=event.path, now=datetime.now(UTC)).job.max_cost_usd
    except SlacktideError:  # another version accepted it
        return None


class Passed(NamedTuple):
    """A level of a fleet's budget that was passed."""

    share: float
    spent_usd: float
    budget_usd: float
    left_hours: float | None  # until the budget is renewed; None if it is renewed all the time


@dataclass(slots=True)
class WatchedFleet:
    """What a fleet may spend, and has spent in its present period."""

    name: str  # the name of its file
    text: str  # the text of its file
    path: str
    origin_hours: float  # the hour on the market's clock at which its own stood at 0
    spending: Spending = field(default_factory=Spending)
    reported: dict[str, float] = field(default_factory=dict)
    """When each level was last reported, in hours of the fleet's clock."""

    @classmethod
    def of(cls, first: Submitted) -> Self:
        origin = first.at_hours if first.origin_hours is None else first.origin_hours
        return cls(Path(first.fleet_path).name or "a fleet file", first.fleet, first.fleet_path, origin)

    def paid(self, event: Lived, site: SiteOpened | None, others: Iterable[Self] = ()) -> Passed | None:
        """Add the cost of a stretch; return the level of the budget that this passed, or None.

        `others` are fleets of earlier versions of the same file, whose spending counts, too.
        """
        stretch, usd = event.priced.stretch, event.priced.charge.usd
        written = _allowance(self.text, self.path)
        if written is None:
            return None
        allowance = placed(written, self.origin_hours, site)
        # A stretch that ends just when a budget is renewed was paid from the old one.
        now = stretch.to_hours - self.origin_hours - 2 * TIME_TOLERANCE_HOURS
        period, rolled = allowance.period(now), now - allowance.period_hours
        # Fixed periods start over when the file is changed, so count what was spent in the length of one.
        since = rolled if allowance.renewal == "fixed" else period.since_hours
        before = sum(other.spending.since(self.origin_hours + since) for other in others)
        before += self.spending.since(self.origin_hours + period.since_hours)
        self.spending.add(stretch.to_hours, usd)
        self._forget(self.origin_hours + min(rolled, period.since_hours))
        level = crossed(before, before + usd, period.budget_usd)
        if level is None or not self._may_report(level, now, since=max(rolled, period.since_hours)):
            return None
        left = period.until_hours - now
        return Passed(level, before + usd, period.budget_usd, left if math.isfinite(left) else None)

    def _may_report(self, level: float, now_hours: float, *, since: float) -> bool:
        """Whether a level was not reported since an hour; if so, note that it is reported now.

        With a rolling budget, spending also falls, and may pass the same level again and again.
        """
        if self.reported.get(str(level), -math.inf) > since:
            return False
        self.reported[str(level)] = now_hours
        return True

    def _forget(self, before_hours: float) -> None:
        """Drop spending before a moment, once there are many entries."""
        hours, sums = self.spending.hours, self.spending.sums_usd
        first = bisect_right(hours, before_hours - TIME_TOLERANCE_HOURS)
        if len(hours) > KEPT_TIMES and first:
            base = sums[first - 1]
            self.spending = Spending(hours[first:], [total - base for total in sums[first:]])


def crossed(before_usd: float, after_usd: float, budget_usd: float | None) -> float | None:
    """Return the highest level of a budget that was passed between two amounts; None if none was."""
    if budget_usd is None or not math.isfinite(budget_usd):
        return None
    limits = ((level, level * budget_usd - MONEY_TOLERANCE_USD) for level in LEVELS)
    return max((level for level, usd in limits if before_usd < usd <= after_usd), default=None)


def _spent(who: str, share: float, spent_usd: float, budget_usd: float, what: str) -> str:
    amounts = f"{format_usd(spent_usd)} of {format_usd(budget_usd)}"
    return f"{who} has spent {words.percent(share)} of {what}: {amounts}"


@lru_cache(maxsize=KEPT_FLEETS)
def _allowance(text: str, path: str) -> Allowance | None:
    """Return what a fleet file allows to spend; None if its budget is not money, or it cannot be read."""
    try:
        return parse_fleet(text, path=path).allowance
    except SlacktideError:  # another version accepted it
        return None
