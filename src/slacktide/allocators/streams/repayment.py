"""Spreads what a stream saved or overspent, against its average budget, over many of its coming jobs.

More or fewer jobs than usual, by chance, must not lead to narrow and wide jobs: near the least budget a
little less money costs much time. So what was saved or overspent is spread over about as many arrivals as
chance needs to make it that large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.allocators.streams.class_estimates import Estimate
from slacktide.allocators.view import FleetView
from slacktide.budget.classes import JobClass
from slacktide.budget.estimates.rates import ArrivalRate

LEAST_EXCESS = 1e-9  # how far a target is kept above the least budget, as a share: below it there is no plan

Way = Sequence[int]  # a width for each phase


class Repaying(NamedTuple):
    """Over how many arrivals what was saved or overspent is spread."""

    least_jobs: float  # at least over the time of this many arrivals ...
    roots: float
    """... and over this many times the root of all arrivals so far, times the root of their dispersion."""
    most_share: float  # at most this share of what the budget leaves beyond the least that all work needs

    def target_gpus(
        self,
        held_gpu_hours: float,
        budget_gpus: float,
        least_gpus: float,
        pace: ArrivalRate,
        now_hours: float,
    ) -> float:
        """Return the GPUs to plan for if this much was saved; a negative number was overspent."""
        jobs = max(self.least_jobs, self.roots * math.sqrt(pace.dispersion * pace.count))
        most_gpus = self.most_share * max(budget_gpus - least_gpus, 0.0)
        more_gpus = held_gpu_hours * pace.per_hour(now_hours) / jobs
        target = budget_gpus + min(max(more_gpus, -most_gpus), most_gpus)
        return max(target, least_gpus * (1.0 + LEAST_EXCESS))


def committed_gpu_hours(view: FleetView, known: Mapping[int, Estimate], ways: Mapping[int, Way]) -> float:
    """Return an estimate of the GPU-hours that the present jobs will still need.

    Each keeps the width that it holds until its phase ends and then goes the way of its class.
    """
    columns = (view.jobs.kind, view.jobs.phase, view.jobs.gpus)
    keys = zip(*(column.tolist() for column in columns), strict=True)
    left = left_gpu_hours(view, known).tolist()
    per_work: dict[tuple[int, int, int], float] = {}
    total = 0.0
    for key, work in zip(keys, left, strict=True):
        index, phase, gpus = key
        if index not in known:
            continue
        if key not in per_work:
            one = known[index].job_class
            per_work[key] = _per_work(one, phase, gpus, ways.get(index) or (one.widths[0],) * len(one.phases))
        total += work * per_work[key]
    return total


def left_gpu_hours(view: FleetView, known: Mapping[int, Estimate]) -> np.typing.NDArray[np.float64]:
    """Return the work that each job has left: as it declares, or the mean of jobs that came this far."""
    jobs = view.jobs
    if jobs.work_gpu_hours is not None:
        return np.maximum(jobs.work_gpu_hours - jobs.progress_gpu_hours, 0.0)
    left = np.zeros(len(jobs.ids))
    for index, one in known.items():
        members = jobs.kind == index
        left[members] = one.sizes.left(jobs.progress_gpu_hours[members])
    return left


def _per_work(one: JobClass, phase: int, gpus: int, way: Way) -> float:
    """Return the GPU-hours for each GPU-hour of work from a phase on, restarts on the way included."""
    total, work, held = 0.0, 0.0, gpus
    for place in range(phase, len(one.phases)):
        width = gpus if place == phase and gpus else way[place]
        pause = one.restart_hours if width != held else 0.0
        total += pause * width + one.phases[place].work_gpu_hours * width / one.phases[place].speedup(width)
        work += one.phases[place].work_gpu_hours
        held = width
    return total / work
