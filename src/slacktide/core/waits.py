"""How long to wait before what failed is tried again: twice as long after each failure, up to a limit.

For retries of jobs see `engine.job.retry_limits`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LEAST_SHARE = 0.5
"""Of a wait that is always kept. The rest is drawn, so that clients that failed together return apart."""
MOST_DOUBLINGS = 64  # after this many any wait has reached its limit, and a power of two is still a number
MOST_KEPT = 256  # how many things a table remembers before it drops those that are long over
LONGEST_REQUESTED_S = 3600.0
"""A server that requests a longer pause is tried again after this one all the same."""


def undrawn() -> float:
    """Draw nothing: every wait has its full length."""
    return 1.0


class GrowingWait:
    """Counts failures in a row and says how long to wait after each, in the unit of its limits."""

    def __init__(self, first: float, longest: float, draw: Callable[[], float] = random.random) -> None:
        """Give the first wait and the longest one; `draw` returns numbers from 0 to 1."""
        self._first, self._longest, self._draw = first, longest, draw
        self.failures = 0

    def after_failure(self, at_least: float = 0.0) -> float:
        """Count a failure; return how long to wait now."""
        wait = min(self._longest, self._first * 2.0 ** min(self.failures, MOST_DOUBLINGS))
        self.failures += 1
        return max(at_least, wait * (LEAST_SHARE + (1.0 - LEAST_SHARE) * self._draw()))

    def reset(self) -> None:
        """Start over: it worked."""
        self.failures = 0


class RetryTable:
    """When each of many things may be tried again; all hours are on one clock."""

    def __init__(self, first_hours: float, longest_hours: float) -> None:
        """Give the wait after a first failure, and the longest one."""
        self._first_hours, self._longest_hours = first_hours, longest_hours
        self._waits: dict[Hashable, GrowingWait] = {}
        self._until: dict[Hashable, float] = {}

    def is_due(self, key: Hashable, now_hours: float) -> bool:
        """Whether something may be tried."""
        return now_hours >= self._until.get(key, -math.inf)

    def after_failure(self, key: Hashable, now_hours: float) -> None:
        """Wait, twice as long as the last time."""
        # One controller steps this table by its own clock, so nothing has to be spread by chance.
        wait = self._waits.setdefault(key, GrowingWait(self._first_hours, self._longest_hours, undrawn))
        self._until[key] = now_hours + wait.after_failure()

    def wait_once(self, key: Hashable, now_hours: float, hours: float) -> None:
        """Wait this long, without counting a failure."""
        self._until[key] = now_hours + hours

    def reset(self, key: Hashable) -> None:
        """Start over with something: it worked."""
        self._waits.pop(key, None)
        self._until.pop(key, None)

    def tidy(self, now_hours: float) -> None:
        """Drop what has not been tried for long, so that months do not fill the table."""
        if len(self._until) > MOST_KEPT:
            old = now_hours - self._longest_hours
            for key in [key for key, until in self._until.items() if until < old]:
                self.reset(key)


def retry_after_s(text: str | None, now: datetime) -> float:
    """Read a `Retry-After` header, in seconds or as a date; 0 where there is none or it cannot be read."""
    if not text:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        try:
            until = parsedate_to_datetime(text)
        except ValueError:
            return 0.0
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - now).total_seconds()
    return min(max(0.0, seconds), LONGEST_REQUESTED_S) if math.isfinite(seconds) else 0.0
