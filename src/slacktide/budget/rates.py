"""Arrival rates that are averages over all the time since they last changed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

BLOCK = 50
"""Arrivals are looked at in blocks of so many."""
BLOCKS = 400
"""How many blocks are remembered."""
SURE = 4.5
"""A change must stand out by so many standard errors: chance alone shows one in 100,000 looks."""
FEWEST = 2
"""A change must show in at least so many blocks."""
WINDOWS = 8
"""So many stretches as long as the one in question must speak for how it was before."""


class Change(NamedTuple):
    """From when on arrivals come how many times as fast."""

    since_hours: float
    factor: float


@dataclass(slots=True)
class Rate:
    """Counts arrivals and forgets all before a change of pace.

    A fading count would follow every burst and still be late for a lasting change. Here the logarithm of
    the time that each block of arrivals took is compared between the latest blocks and all before: bursts
    spread those times, so a bursty stream needs more evidence than a steady one.
    """

    since_hours: float = 0.0
    count: int = 0
    """Arrivals since then."""
    ends_hours: list[float] = field(default_factory=list)
    """When each block since then was full."""

    def arrived(self, now_hours: float) -> Change | None:
        """Count an arrival; return a change of pace where one has come to light."""
        self.count += 1
        if self.count < BLOCK * (len(self.ends_hours) + 1):
            return None
        self.ends_hours.append(now_hours)
        recent = self._changed()
        if recent:
            before = self.per_hour(now_hours)
            self._forget(len(self.ends_hours) - recent)
            return Change(self.since_hours, self.per_hour(now_hours) / before)
        if len(self.ends_hours) > BLOCKS:
            self._forget(1)
        return None

    def hasten(self, change: Change) -> None:
        """Look at all arrivals before a time as if they had come faster by a factor."""
        self.since_hours = _moved(self.since_hours, change)
        self.ends_hours = [_moved(ended, change) for ended in self.ends_hours]

    def _forget(self, blocks: int) -> None:
        self.since_hours = self.ends_hours[blocks - 1]
        self.count -= blocks * BLOCK
        del self.ends_hours[:blocks]

    def per_hour(self, now_hours: float) -> float:
        """Return the rate: arrivals over the hours since the last change."""
        hours = now_hours - self.since_hours
        return self.count / hours if hours > 0 else math.inf

    def _changed(self) -> int:
        """Return how many of the latest blocks differ from those before; 0 if none stand out."""
        ends = np.array([self.since_hours, *self.ends_hours])
        logs = np.log(np.maximum(np.diff(ends), 1e-12))
        recent = FEWEST
        while len(logs) >= recent * (WINDOWS + 1):
            windows = len(logs) // recent - 1
            before = logs[-recent * (windows + 1) : -recent].reshape(windows, recent).mean(axis=1)
            spread = max(float(before.var(ddof=1)), 1 / (BLOCK * recent))
            stands_out = abs(logs[-recent:].mean() - before.mean())
            if stands_out > SURE * math.sqrt(spread * (1 + 1 / windows)):
                return recent
            recent *= 2
        return 0


def _moved(hours: float, change: Change) -> float:
    early = max(change.since_hours - hours, 0.0)
    return hours + early - early / change.factor
