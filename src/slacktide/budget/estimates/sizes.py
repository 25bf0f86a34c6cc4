"""Estimate how much work jobs have, from finished and unfinished ones (Kaplan and Meier 1958).

The mean of finished jobs alone is too small: long jobs are still running. The mean over all work done is
right only in the long run. Here a job that is present shows that its size is greater than what it has done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats

MOST_WEIGHT = 1e100  # sums are scaled down when their weights grow beyond this ...
LEAST_SHARE = 1e-50
"""... and those below this share of a new one are dropped."""


@dataclass(slots=True)
class Fading:
    """Sums in which older additions count less and less."""

    memory: float  # how many additions count, roughly
    weight: float = 1.0
    sums: dict[int, float] = field(default_factory=dict)

    def age(self) -> None:
        """Let what was added so far count a little less than what is added later."""
        self.weight *= 1.0 + 1.0 / self.memory
        if self.weight > MOST_WEIGHT:
            scaled = {key: value / self.weight for key, value in self.sums.items()}
            self.sums = {key: value for key, value in scaled.items() if value > LEAST_SHARE}
            self.weight = 1.0

    def add(self, key: int, amount: float) -> None:
        self.sums[key] = self.sums.get(key, 0.0) + self.weight * amount

    def get(self, key: int) -> float:
        """Return a sum, in units of what is added now."""
        return self.sums.get(key, 0.0) / self.weight

    def remember(self) -> Mapping[str, Any]:
        return {"weight": self.weight, "sums": [list(each) for each in self.sums.items()]}

    def recall(self, memory: Mapping[str, Any]) -> None:
        self.weight, self.sums = memory["weight"], dict(memory["sums"])


MEMORY_JOBS = 2000.0  # how many finished jobs count, roughly
BINS_PER_DOUBLING = 4
"""How finely sizes of finished jobs are distinguished: coarsely, so that they can be saved often."""
LEAST_GPU_HOURS = 1e-12  # smaller sizes count as this one, so that they have a logarithm


class Survival(NamedTuple):
    """The share of jobs that have more work than each amount; three arrays of one length."""

    work_gpu_hours: Floats  # ascending, from 0
    share: Floats  # the share of jobs with more than that
    beyond_gpu_hours: Floats
    """The mean work beyond that amount, over all jobs: those that have less count as 0."""

    @property
    def mean_gpu_hours(self) -> float:
        """Mean work of a job; 0 while no job has done any."""
        return float(self.beyond_gpu_hours[0])

    def left(self, done_gpu_hours: Floats) -> Floats:
        """Return the mean work left of unfinished jobs that have done this much."""
        at = np.searchsorted(self.work_gpu_hours, done_gpu_hours, side="right") - 1
        is_known, is_last = self.share[at] > 0, at == len(self.share) - 1
        share = np.where(is_known, self.share[at], 1.0)
        left = np.where(is_known, self.beyond_gpu_hours[at] / share, self.mean_gpu_hours)
        since = done_gpu_hours - self.work_gpu_hours[at]
        return np.where(is_last, unseen_gpu_hours(done_gpu_hours, left), left - since)


def unseen_gpu_hours(done_gpu_hours: Floats, mean_gpu_hours: Floats | float) -> Floats:
    """Return the work assumed to be left of a job that has done more than any finished one.

    Half as much as it has done, as for scale-free sizes; or the mean, as for exponential ones, if greater.
    """
    found: Floats = np.maximum(0.5 * done_gpu_hours, mean_gpu_hours)
    return found


@dataclass(slots=True)
class Sizes:
    """The sizes of the jobs of one class, those of finished ones in bins."""

    finished: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    """How many finished jobs are in each bin."""
    work: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    """The work of all of them, as one sum, which corrects the rounding of the bins."""
    done: dict[int, float] = field(default_factory=dict)  # [job]: what each that is present has done

    def arrived(self, job: int) -> None:
        self.done[job] = 0.0

    def progressed(self, job: int, work_gpu_hours: float) -> None:
        self.done[job] += work_gpu_hours

    def ended(self, job: int) -> None:
        work = max(self.done.pop(job), LEAST_GPU_HOURS)
        self.finished.age()
        self.finished.add(round(BINS_PER_DOUBLING * math.log2(work)), 1.0)
        self.work.age()
        self.work.add(0, work)

    @property
    def finished_jobs(self) -> float:
        return sum(self.finished.sums.values()) / self.finished.weight

    def survival(self) -> Survival:
        """Return how sizes are spread, as far as finished and present jobs show."""
        counts = np.array(list(self.finished.sums.values())) / self.finished.weight
        sizes = np.exp2(np.array(list(self.finished.sums)) / BINS_PER_DOUBLING)
        if len(counts):
            sizes *= self.work.get(0) / float(counts @ sizes)
        return kaplan_meier(sizes, counts, np.array(list(self.done.values())))

    def remember(self) -> Mapping[str, Any]:
        return {
            "finished": self.finished.remember(),
            "work": self.work.remember(),
            "done": [list(each) for each in self.done.items()],
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        self.finished.recall(memory["finished"])
        self.work.recall(memory["work"])
        self.done = dict(memory["done"])


def kaplan_meier(sizes: Floats, counts: Floats, present: Floats) -> Survival:
    """Return the survival of sizes, from the finished jobs of each size and what present jobs have done."""
    work = np.concatenate((sizes, present))
    ends = np.concatenate((counts, np.zeros(len(present))))
    order = np.lexsort((-ends, work))  # finished first: a present job that has done as much still counts
    work, ends = work[order], ends[order]
    jobs = np.concatenate((counts, np.ones(len(present))))[order]
    left = np.cumsum(jobs[::-1])[::-1]  # jobs that are known to have at least this much
    share = np.concatenate(([1.0], np.cumprod(1.0 - ends / left)))
    at = np.concatenate(([0.0], work))
    areas = share[:-1] * np.diff(at)
    tail = share[-1] * unseen_gpu_hours(at[-1], areas.sum() if len(sizes) else 0.0)
    beyond = tail + np.concatenate((np.cumsum(areas[::-1])[::-1], [0.0]))
    return Survival(at, share, beyond)
