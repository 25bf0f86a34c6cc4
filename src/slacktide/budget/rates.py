"""Arrival rates that are averages over all the time since they last changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slacktide.arrays import Floats

BLOCK = 50
"""Arrivals are looked at in blocks of so many."""
BLOCKS = 400
"""How many blocks are remembered."""
SURE = 3.4
"""A change must stand out by so many standard errors, and by more while little is known."""
FEWEST = 2
"""A change must show in at least so many blocks."""
WINDOWS = 12
"""So many stretches must speak for how it was before."""


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

    def arrived(self, now_hours: float) -> bool:
        """Count an arrival; return whether a change of pace has come to light."""
        self.count += 1
        if self.count < BLOCK * (len(self.ends_hours) + 1):
            return False
        self.ends_hours.append(now_hours)
        recent = self._changed()
        if recent:
            self._forget(len(self.ends_hours) - recent)
        elif len(self.ends_hours) > BLOCKS:
            self._forget(1)
        return recent > 0

    def _forget(self, blocks: int) -> None:
        self.since_hours = self.ends_hours[blocks - 1]
        self.count -= blocks * BLOCK
        del self.ends_hours[:blocks]

    def per_hour(self, now_hours: float) -> float:
        """Return the rate: arrivals over the hours since the last change."""
        hours = now_hours - self.since_hours
        return self.count / hours if hours > 0 else math.inf

    def remember(self) -> Mapping[str, Any]:
        """Return all that it knows as JSON values."""
        return asdict(self)

    @classmethod
    def recalled(cls, memory: Mapping[str, Any]) -> Rate:
        """Return the rate that was written down."""
        return cls(memory["since_hours"], memory["count"], list(memory["ends_hours"]))

    def _changed(self) -> int:
        """Return how many of the latest blocks differ from those before; 0 if none stand out."""
        ends = np.array([self.since_hours, *self.ends_hours])
        logs = np.log(np.maximum(np.diff(ends), 1e-12))
        recent = FEWEST
        while len(logs) >= recent + FEWEST * WINDOWS:
            if stands_out(logs[:-recent], logs[-recent:]):
                return recent
            recent += (recent + 1) // 2
        return 0


def stands_out(before: Floats, after: Floats) -> bool:
    """Whether the latest blocks differ from all before by more than chance and bursts explain.

    The spread is taken from stretches as long as the latest one, or shorter where there are too few of those.
    """
    length = len(after)
    while len(before) < length * WINDOWS:
        length //= 2
    windows = len(before) // length
    means = before[len(before) - windows * length :].reshape(windows, length).mean(axis=1)
    spread = max(float(means.var(ddof=1)), 1 / (BLOCK * length)) * length / len(after)
    error = math.sqrt(spread * (1 + len(after) / len(before)))
    sure = SURE * (1 + 8 / windows)  # few stretches say little of the spread
    return abs(float(after.mean() - before.mean())) > sure * error
