"""Exponential backoff: how long to wait before a retry, twice as long after each failure, up to a limit.

For retries of jobs see `engine.job.retry_limits`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LEAST_SHARE = 0.5
"""This share of a wait is fixed; the rest is random, so that clients that failed together retry apart."""
MOST_DOUBLINGS = 64  # after this many any wait has reached its limit, and 2.0**64 does not overflow
MOST_KEPT = 256  # how many keys a table holds before it drops old ones
LONGEST_REQUESTED_S = 3600.0
"""The longest pause that a server can request; a longer one is cut to this."""


def undrawn() -> float:
    """Return 1, so that every wait has its full length."""
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
        """Forget the failures after a success."""
        self.failures = 0


class RetryTable:
    """When each of many things may be tried again; all hours are on one clock."""

    def __init__(self, first_hours: float, longest_hours: float) -> None:
        """Give the wait after a first failure, and the longest one."""
        self._first_hours, self._longest_hours = first_hours, longest_hours
        self._waits: dict[Hashable, GrowingWait] = {}
        self._until: dict[Hashable, float] = {}

    def is_due(self, key: Hashable, now_hours: float) -> bool:
        """Whether a key may be tried now."""
        return now_hours >= self._until.get(key, -math.inf)

    def after_failure(self, key: Hashable, now_hours: float) -> None:
        """Count a failure: wait twice as long as after the last one."""
        # A table belongs to one controller and its clock, so its waits need no randomness.
        wait = self._waits.setdefault(key, GrowingWait(self._first_hours, self._longest_hours, undrawn))
        self._until[key] = now_hours + wait.after_failure()

    def wait_once(self, key: Hashable, now_hours: float, hours: float) -> None:
        """Wait this long, without counting a failure."""
        self._until[key] = now_hours + hours

    def reset(self, key: Hashable) -> None:
        """Forget a key's failures after a success."""
        self._waits.pop(key, None)
        self._until.pop(key, None)

    def tidy(self, now_hours: float) -> None:
        """Drop keys whose waits ended long ago, so that the table does not grow for months."""
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
