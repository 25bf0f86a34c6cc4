"""How much of a budget is spent: each of a few levels is told when it is passed, once in a period."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from slacktide.app.fleet_money import placed
from slacktide.budget.allowance import Allowance, Period, Spending
from slacktide.errors import SlacktideError
from slacktide.events import Lived, SiteOpened, Submitted
from slacktide.jobfile.fleet import parse_fleet
from slacktide.report import words
from slacktide.tariff import MONEY_TOLERANCE_USD
from slacktide.types import TIME_TOLERANCE_HOURS
from slacktide.units import format_usd

LEVELS = (0.5, 0.8, 1.0)
KEPT_FLEETS = 64
KEPT_TIMES = 2048
"""Times of spending that are kept before those of earlier periods are dropped."""


class Passed(NamedTuple):
    """A level of a fleet's budget that was passed."""

    share: float
    spent_usd: float
    budget_usd: float
    left_hours: float | None
    """Until the budget is renewed; None where it is renewed all the time."""


@dataclass(slots=True)
class WatchedFleet:
    """What a fleet may spend, and has spent in its present period."""

    name: str
    """That of its file."""
    text: str
    """Its file."""
    path: str
    origin_hours: float
    """When its clock stood at 0, on the market's."""
    spending: Spending = field(default_factory=Spending)
    told: dict[str, float] = field(default_factory=dict)
    """When each level was told last, where the budget is renewed all the time."""

    @classmethod
    def of(cls, first: Submitted) -> Self:
        """Return the fleet of its first job."""
        origin = first.at_hours if first.origin_hours is None else first.origin_hours
        return cls(Path(first.fleet_path).name or "a fleet file", first.fleet, first.fleet_path, origin)

    def paid(self, event: Lived, site: SiteOpened | None) -> Passed | None:
        """Take in what a stretch cost; return the level that was passed with it, if one was."""
        stretch, usd = event.priced.stretch, event.priced.charge.usd
        written = _allowance(self.text, self.path)
        if written is None:
            return None
        allowance = placed(written, self.origin_hours, site)
        # What ends just when a budget is renewed was spent before.
        now = stretch.to_hours - self.origin_hours - 2 * TIME_TOLERANCE_HOURS
        period = allowance.period(now)
        before = self._spent_usd(period)
        self.spending.add(stretch.to_hours, usd)
        spent = self._spent_usd(period)
        self._forget(period)
        level = crossed(before, spent, period.budget_usd)
        if level is None or not self._may_tell(level, now, allowance):
            return None
        left = period.until_hours - now
        return Passed(level, spent, period.budget_usd, left if math.isfinite(left) else None)

    def _may_tell(self, level: float, now_hours: float, allowance: Allowance) -> bool:
        """Whether a level was not told in this period.

        In a period with a beginning, spending only grows and passes a level once; in the hours up to now it
        falls, too, and may pass one again and again.
        """
        if allowance.renewal != "rolling":
            return True
        last = self.told.get(str(level), -math.inf)
        if now_hours - last >= allowance.period_hours:
            self.told[str(level)] = now_hours
            return True
        return False

    def _spent_usd(self, period: Period) -> float:
        return self.spending.since(self.origin_hours + period.since_hours)

    def _forget(self, period: Period) -> None:
        """Drop what was spent before the period, once that is much."""
        hours, sums = self.spending.hours, self.spending.sums_usd
        first = bisect_right(hours, self.origin_hours + period.since_hours - TIME_TOLERANCE_HOURS)
        if len(hours) > KEPT_TIMES and first:
            base = sums[first - 1]
            self.spending = Spending(hours[first:], [total - base for total in sums[first:]])


def crossed(before_usd: float, after_usd: float, budget_usd: float | None) -> float | None:
    """Return the highest level of a budget that was passed on the way from one amount to another."""
    if budget_usd is None or not math.isfinite(budget_usd):
        return None
    levels = [level for level in LEVELS if _is_between(before_usd, level * budget_usd, after_usd)]
    return max(levels, default=None)


def _is_between(before_usd: float, limit_usd: float, after_usd: float) -> bool:
    return before_usd < limit_usd - MONEY_TOLERANCE_USD <= after_usd


def said(who: str, share: float, spent_usd: float, budget_usd: float, what: str) -> str:
    """Say that somebody has spent a share of what may be spent."""
    amounts = f"{format_usd(spent_usd)} of {format_usd(budget_usd)}"
    return f"{who} has spent {words.percent(share)} of {what}: {amounts}"


@lru_cache(maxsize=KEPT_FLEETS)
def _allowance(text: str, path: str) -> Allowance | None:
    """Return what a fleet file lets be spent; None where its budget is not money, or cannot be read."""
    try:
        return parse_fleet(text, path=path).allowance
    except SlacktideError:  # another version took it in
        return None
