"""How much of a budget is spent: each of a few levels is told when it is passed, once in a period."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from slacktide.app.costs.fleet_money import placed
from slacktide.budget.allowance import Allowance, Spending
from slacktide.core.errors import SlacktideError
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.core.units import format_usd
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.journal.events import Lived, SiteOpened, Submitted
from slacktide.physics.tariff import MONEY_TOLERANCE_USD
from slacktide.report import words

LEVELS = (0.5, 0.8, 1.0)
KEPT_FLEETS = 64
KEPT_TIMES = 2048
"""Times of spending that are kept before old ones are dropped."""


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
    """When each level was told last, in hours of its clock."""

    @classmethod
    def of(cls, first: Submitted) -> Self:
        """Return the fleet of its first job."""
        origin = first.at_hours if first.origin_hours is None else first.origin_hours
        return cls(Path(first.fleet_path).name or "a fleet file", first.fleet, first.fleet_path, origin)

    def paid(self, event: Lived, site: SiteOpened | None, others: Iterable[Self] = ()) -> Passed | None:
        """Take in what a stretch cost; return the level that was passed with it, if one was.

        `others` are fleets of the same file as it was before it was changed: what they spent is spent, too.
        """
        stretch, usd = event.priced.stretch, event.priced.charge.usd
        written = _allowance(self.text, self.path)
        if written is None:
            return None
        allowance = placed(written, self.origin_hours, site)
        # What ends just when a budget is renewed was spent before.
        now = stretch.to_hours - self.origin_hours - 2 * TIME_TOLERANCE_HOURS
        period, rolled = allowance.period(now), now - allowance.period_hours
        # Periods of one length begin anew with a changed file; what was spent in the length of one counts.
        since = rolled if allowance.renewal == "fixed" else period.since_hours
        before = sum(other.spending.since(self.origin_hours + since) for other in others)
        before += self.spending.since(self.origin_hours + period.since_hours)
        self.spending.add(stretch.to_hours, usd)
        self._forget(self.origin_hours + min(rolled, period.since_hours))
        level = crossed(before, before + usd, period.budget_usd)
        if level is None or not self._may_tell(level, now, since=max(rolled, period.since_hours)):
            return None
        left = period.until_hours - now
        return Passed(level, before + usd, period.budget_usd, left if math.isfinite(left) else None)

    def _may_tell(self, level: float, now_hours: float, *, since: float) -> bool:
        """Whether a level was not told since then.

        What was spent in the hours up to now also falls, and may pass a level again and again.
        """
        if self.told.get(str(level), -math.inf) > since:
            return False
        self.told[str(level)] = now_hours
        return True

    def _forget(self, before_hours: float) -> None:
        """Drop what was spent before a moment, once that is much."""
        hours, sums = self.spending.hours, self.spending.sums_usd
        first = bisect_right(hours, before_hours - TIME_TOLERANCE_HOURS)
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
