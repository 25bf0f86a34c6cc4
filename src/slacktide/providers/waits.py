"""Waiting longer and longer before what failed is tried again."""

from __future__ import annotations

import math
from collections.abc import Hashable

MOST_KEPT = 256
"""Things that are kept in mind before old ones are dropped."""


class Waits:
    """When each thing may be tried again; all hours are of one clock."""

    def __init__(self, first_hours: float, longest_hours: float) -> None:
        """Say how long to wait after a first failure, and at most; the wait doubles in between."""
        self._first_hours, self._longest_hours = first_hours, longest_hours
        self._hours: dict[Hashable, float] = {}
        self._until: dict[Hashable, float] = {}

    def is_over(self, key: Hashable, now_hours: float) -> bool:
        """Whether something may be tried."""
        return now_hours >= self._until.get(key, -math.inf)

    def after_failure(self, key: Hashable, now_hours: float) -> None:
        """Wait, twice as long as the last time."""
        hours = min(2.0 * self._hours.get(key, self._first_hours / 2.0), self._longest_hours)
        self._hours[key], self._until[key] = hours, now_hours + hours

    def for_hours(self, key: Hashable, now_hours: float, hours: float) -> None:
        """Wait this long, once."""
        self._until[key] = now_hours + hours

    def forget(self, key: Hashable) -> None:
        """Begin anew: it worked."""
        self._hours.pop(key, None)
        self._until.pop(key, None)

    def tidy(self, now_hours: float) -> None:
        """Drop what nobody has tried for long, so that months do not fill it."""
        if len(self._until) > MOST_KEPT:
            old = now_hours - self._longest_hours
            for key in [key for key, until in self._until.items() if until < old]:
                self.forget(key)
