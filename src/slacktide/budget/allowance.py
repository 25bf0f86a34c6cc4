"""Money over time: what a fleet may spend in each period, and what it has spent and when."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from slacktide.core.errors import InputError, shown
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.core.units import HOURS_PER_MONTH

Renewal: TypeAlias = Literal["calendar", "rolling", "fixed"]
"""When a budget is renewed: with each calendar month (UTC); continuously, so that it always covers the last
period; or in periods of one length, counted from the beginning of the run."""
RENEWALS: tuple[Renewal, ...] = ("calendar", "rolling", "fixed")


class Period(NamedTuple):
    """A period of a budget, on the clock of the run."""

    since_hours: float
    until_hours: float  # when the budget is renewed; infinite for one that is renewed all the time
    budget_usd: float  # what may be spent in it; less where the run began in the middle of it


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may be spent in each period; raises InputError for an impossible number."""

    usd: float = math.inf
    period_hours: float = HOURS_PER_MONTH
    """The length of a period; of calendar months it is taken as the mean."""
    renewal: Renewal = "fixed"
    start: datetime = datetime(2025, 1, 1, tzinfo=UTC)
    """When the clock of the run stood at 0; only calendar months need it."""

    def __post_init__(self) -> None:
        if not self.usd > 0:
            raise InputError(f"a budget must be > 0 usd, got {self.usd:g}")
        if not (math.isfinite(self.period_hours) and self.period_hours > 0):
            raise InputError(f"the period of a budget must be > 0 hours, got {self.period_hours:g}")
        if self.renewal not in RENEWALS:
            raise InputError(f"a budget must be renewed by {', '.join(RENEWALS)}, got {shown(self.renewal)}")
        if self.start.tzinfo is None:
            raise InputError(f"the start of a budget must have a time zone, got {self.start}")

    @property
    def usd_per_hour(self) -> float:
        return self.usd / self.period_hours

    def period(self, now_hours: float) -> Period:
        """Return the period that a moment lies in."""
        if self.renewal == "rolling":
            return Period(now_hours - self.period_hours, math.inf, self.usd)
        if self.renewal == "fixed":
            number = math.floor(now_hours / self.period_hours + 1e-9)
            return Period(number * self.period_hours, (number + 1) * self.period_hours, self.usd)
        since, until = self._month(now_hours)
        share = (until - max(since, 0.0)) / (until - since)
        return Period(since, until, self.usd * share)

    def _month(self, now_hours: float) -> tuple[float, float]:
        """Return when a moment's calendar month begins and ends; just before a month counts as in it."""

        now = (self.start + timedelta(hours=now_hours + 1e-7)).astimezone(UTC)
        first = datetime(now.year, now.month, 1, tzinfo=UTC)
        following = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
        begins, ends = ((moment - self.start).total_seconds() / 3600.0 for moment in (first, following))
        return begins, ends


@dataclass(slots=True)
class Spending:
    """All that was spent so far, by when; amounts come nearly in the order of their time."""

    hours: list[float] = field(default_factory=list)
    sums_usd: list[float] = field(default_factory=list)  # all that was spent up to each of these times

    def add(self, until_hours: float, usd: float) -> None:
        """Add the cost of a stretch that ended at this time; all of it counts as spent then."""
        if usd == 0.0:
            return
        place = bisect_left(self.hours, until_hours)
        if place == len(self.hours) or self.hours[place] != until_hours:
            self.hours.insert(place, until_hours)
            self.sums_usd.insert(place, self.sums_usd[place - 1] if place else 0.0)
        for later in range(place, len(self.sums_usd)):
            self.sums_usd[later] += usd

    @property
    def total_usd(self) -> float:
        return self.sums_usd[-1] if self.sums_usd else 0.0

    def since(self, hours: float) -> float:
        """Return what was spent after a moment; a stretch that ended at that very moment does not count."""
        before = bisect_right(self.hours, hours + TIME_TOLERANCE_HOURS)
        return self.total_usd - (self.sums_usd[before - 1] if before else 0.0)
