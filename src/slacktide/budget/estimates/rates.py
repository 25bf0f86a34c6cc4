"""Estimate arrival rates so that they follow lasting changes of pace and not every burst.

The rate of a stream is assumed to be constant since its last change, which may have been at any of some marks
in the past, or never. Each possibility is weighted by how well it explains when jobs came (Bayesian run
lengths), and the rate is the mean over all of them: no change has to be detected, and no threshold chosen. In
bursty streams counts spread more than in a Poisson stream, so arrivals are worth less as evidence: they are
divided by the dispersion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slacktide.core.arrays import Floats

BLOCKS_JOBS = (10, 20, 40, 80)
"""Arrivals in a block: bursts of any length show in blocks that are about as long."""
ASSUMED = 8.0  # the dispersion before anything is known: about that of streams of real clusters
ASSUMED_BLOCKS = 10
"""How many blocks that assumption counts for."""
FEWEST_BLOCKS = 3  # fewer blocks do not show how much they differ
LEAST_HOURS = 1e-12  # a block takes at least this long, so that it has a logarithm


@dataclass(slots=True)
class Blocks:
    """Blocks of one length: how much each differs from the one before.

    Differences of neighbours are taken, so that a lasting change of pace counts once and not in every block.
    """

    jobs: int
    end_hours: float = 0.0  # when the latest block was full
    log_hours: float | None = None  # the logarithm of how long it took; None before the first
    count: int = 0
    squares: float = 0.0  # sum of the squared differences of those logarithms

    def full(self, now_hours: float) -> None:
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


MARK_JOBS = BLOCKS_JOBS[0]  # a change may have come with every arrival of this multiple ...
MARKS = 32
"""... of which this many are kept, closer together the more recent they are."""
CHANGES_PER_JOB = 3e-4
"""The chance of a change at each arrival: a higher one follows changes sooner, but sees more false ones."""
SHAPE = 2.0
"""Shape of the gamma distribution of rates after a change, whose mean is that of all arrivals so far: weak
enough to follow any change, strong enough not to take one burst for a rate many times as high."""
SHIFT = 5  # for numbers from here on Stirling's series gives the logarithm of the gamma function


@dataclass(slots=True)
class ArrivalRate:
    """Counts arrivals and estimates how many come per hour at present."""

    changes_per_job: float = CHANGES_PER_JOB
    count: int = 0  # arrivals so far
    marks: list[tuple[int, float]] = field(default_factory=lambda: [(0, 0.0)])
    """How many had come by which hour, ascending: a change may have been at each."""
    blocks: list[Blocks] = field(default_factory=lambda: [Blocks(jobs) for jobs in BLOCKS_JOBS])
    fitted: tuple[int, float, float] | None = field(default=None, compare=False, repr=False)
    """The rate that was found last, with the count and the hour for which it was."""

    def arrived(self, now_hours: float) -> None:
        self.count += 1
        if self.count % MARK_JOBS == 0:
            for block in self.blocks:
                if self.count % block.jobs == 0:
                    block.full(now_hours)
            self.marks.append((self.count, now_hours))
            if len(self.marks) > MARKS:
                self._thin()

    def _thin(self) -> None:
        """Drop the mark whose neighbours are closest to each other, relative to how long ago they are."""
        ago = self.count + MARK_JOBS - np.array([count for count, _ in self.marks])
        del self.marks[1 + int(np.argmin(ago[:-2] / ago[2:]))]

    @property
    def dispersion(self) -> float:
        """The greatest dispersion that blocks of some length show: 1 for a Poisson stream, at least 1."""
        seen = [block.dispersion for block in self.blocks if block.count >= FEWEST_BLOCKS]
        return max(1.0, *seen) if seen else ASSUMED

    def per_hour(self, now_hours: float) -> float:
        """Return the present rate: the mean over all marks at which its last change may have been."""
        if not now_hours > 0:
            return math.inf
        if self.fitted is None or self.fitted[:2] != (self.count, now_hours):
            self.fitted = (self.count, now_hours, self._fit(now_hours))
        return self.fitted[2]

    def _fit(self, now_hours: float) -> float:
        if not self.count:
            return 0.0
        marks = np.array([*self.marks, (self.count, now_hours)])
        jobs, hours = marks.T / self.dispersion
        blocks = np.diff(marks[:-1, 0], prepend=0.0)
        blocks[0] = 1.0 / self.changes_per_job  # at the first mark the stream began, with probability 1
        prior_hours = SHAPE * now_hours / self.count
        return run_mean(jobs, hours, np.log(self.changes_per_job * blocks), prior_hours)

    def remember(self) -> Mapping[str, Any]:
        return {
            "count": self.count,
            "marks": [list(mark) for mark in self.marks],
            "bursts": [asdict(block) for block in self.blocks],
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        self.count = memory["count"]
        self.marks = [(count, hours) for count, hours in memory["marks"]]
        self.blocks = [Blocks(**block) for block in memory["bursts"]]
        self.fitted = None


def run_mean(jobs: Floats, hours: Floats, log_change: Floats, prior_hours: float) -> float:
    """Return the mean rate of the last run, over all marks at which it may have begun.

    `jobs` and `hours` count up to each mark and at last up to now; `log_change` is the logarithm of the
    chance of a change at each. A run of C jobs in T hours has the evidence of a Poisson stream whose rate is
    drawn from a gamma distribution; what came before the run adds up over all earlier changes.
    """
    run_jobs = SHAPE + np.maximum(jobs - jobs[:, None], 0.0)
    run_hours = prior_hours + np.maximum(hours - hours[:, None], 0.0)
    evidence = log_gamma(run_jobs) - run_jobs * np.log(run_hours)
    evidence += SHAPE * math.log(prior_hours) - math.lgamma(SHAPE)
    before = log_change.copy()
    for mark in range(1, len(before)):
        before[mark] += np.logaddexp.reduce(before[:mark] + evidence[:mark, mark])
    weights = before + evidence[:-1, -1]
    weights = np.exp(weights - weights.max())
    return float(weights @ (run_jobs[:-1, -1] / run_hours[:-1, -1]) / weights.sum())


def log_gamma(numbers: Floats) -> Floats:
    """Return the logarithm of the gamma function of numbers > 0, to nine digits."""
    large = numbers + SHIFT
    product = numbers.copy()
    for step in range(1, SHIFT):
        product *= numbers + step
    inverse = 1.0 / large
    series = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 / 1260))
    found: Floats = (large - 0.5) * np.log(large) - large + 0.5 * math.log(2 * math.pi) + series
    return found - np.log(product)
