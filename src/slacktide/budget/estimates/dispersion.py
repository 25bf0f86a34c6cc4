"""How bursty arrivals are: the variance of their counts over that of a Poisson stream of the same rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

BLOCKS_JOBS = (10, 20, 40, 80)
"""Arrivals in a block: bursts of any length show in blocks that are about as long."""
ASSUMED = 8.0
"""What is assumed before anything is known: about what streams of real clusters have."""
ASSUMED_BLOCKS = 10
"""... and for how many blocks that counts."""
FEWEST_BLOCKS = 3
"""Fewer blocks say nothing of how much they differ."""
LEAST_HOURS = 1e-12
"""A block takes at least this long, so that it has a logarithm."""


@dataclass(slots=True)
class Blocks:
    """Blocks of one length: how much each differs from the one before.

    Differences of neighbours are taken, so that a lasting change of pace counts once and not in every block.
    """

    jobs: int
    end_hours: float = 0.0
    """When the latest block was full."""
    log_hours: float | None = None
    """The logarithm of how long it took; None before the first."""
    count: int = 0
    squares: float = 0.0
    """Sum of the squared differences of those logarithms."""

    def full(self, now_hours: float) -> None:
        """Count a block that is full."""
        log_hours = math.log(max(now_hours - self.end_hours, LEAST_HOURS))
        if self.log_hours is not None:
            self.squares += (log_hours - self.log_hours) ** 2
        self.end_hours, self.log_hours, self.count = now_hours, log_hours, self.count + 1

    @property
    def dispersion(self) -> float:
        """The dispersion that these blocks show, drawn towards the assumed one while they are few."""
        if self.count < FEWEST_BLOCKS:
            return ASSUMED
        seen = self.jobs / 2 * self.squares / (self.count - 1)
        return (ASSUMED_BLOCKS * ASSUMED + self.count * seen) / (ASSUMED_BLOCKS + self.count)


@dataclass(slots=True)
class Dispersion:
    """Says how bursty a stream of arrivals is; it keeps a few numbers, however long the stream."""

    blocks: list[Blocks] = field(default_factory=lambda: [Blocks(jobs) for jobs in BLOCKS_JOBS])

    def arrived(self, count: int, now_hours: float) -> None:
        """Take in that so many have come by now; asked at each multiple of the shortest block."""
        for one in self.blocks:
            if count % one.jobs == 0:
                one.full(now_hours)

    @property
    def value(self) -> float:
        """The greatest dispersion that blocks of some length show: 1 for a Poisson stream, at least 1."""
        seen = [one.dispersion for one in self.blocks if one.count >= FEWEST_BLOCKS]
        return max(1.0, *seen) if seen else ASSUMED

    def remember(self) -> list[Mapping[str, Any]]:
        """Return all that it knows as JSON values."""
        return [asdict(one) for one in self.blocks]

    @classmethod
    def recalled(cls, memory: Sequence[Mapping[str, Any]]) -> Dispersion:
        """Return the dispersion that was written down."""
        return cls([Blocks(**one) for one in memory])
