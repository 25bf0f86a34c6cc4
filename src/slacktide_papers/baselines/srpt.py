"""Shortest remaining work first, on a cluster of fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocators.base import allocators, at_least_one
from slacktide.allocators.view import FleetView, Wanted
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Ints
from slacktide.simulation.fleet.tuning import Knob
from slacktide_papers.baselines.fixed_cluster import cluster_size, fitting_widths
from slacktide_papers.baselines.shares import cluster_sizes, doubled_widths


@allocators.register
@dataclass(frozen=True, slots=True)
class Srpt:
    """Keep a cluster and run the jobs with the least work left, all on the same width.

    It must know the sizes of jobs, which are seldom known, and stops jobs half-way for shorter ones.
    """

    needs_sizes: ClassVar[bool] = True

    cluster_gpus: int | None = None  # size of the cluster; None takes the budget
    gpus: int = 4  # width of every job that runs; a class that may not have it gets the next narrower one

    def __post_init__(self) -> None:
        at_least_one("gpus", self.gpus)

    @staticmethod
    def knobs(fleet: Fleet) -> list[Knob]:
        """Return a variant for each width; its knob is the size of the cluster."""
        return [_of_width(gpus, fleet) for gpus in doubled_widths(fleet)]

    def begin(self, fleet: Fleet) -> SrptRun:
        """Look up each class's width. Raises InputError when a class does not fit into the cluster."""
        size = cluster_size(fleet, self.cluster_gpus)
        return SrptRun(size, fitting_widths(fleet, self.gpus, size))


def _of_width(gpus: int, fleet: Fleet) -> Knob:
    return Knob(lambda size: Srpt(int(size), gpus), *cluster_sizes(fleet), True)


@dataclass(frozen=True, slots=True)
class SrptRun:
    """Serves the job with the least work left first; of two equals, the one that came first."""

    needs_sizes: ClassVar[bool] = True

    size_gpus: int
    widths: Ints  # [stage]

    def rent_gpus(self, view: FleetView) -> int:
        return self.size_gpus

    def decide(self, view: FleetView) -> Wanted:
        jobs = view.jobs
        assert jobs.work_gpu_hours is not None
        order = np.argsort(jobs.work_gpu_hours - jobs.progress_gpu_hours, kind="stable")
        wanted = self.widths[view.stage]
        served = np.cumsum(wanted[order]) <= self.size_gpus
        widths = np.zeros_like(wanted)
        widths[order[served]] = wanted[order[served]]
        return Wanted(widths)
