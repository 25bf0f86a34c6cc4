"""First come, first served, on a cluster of fixed size."""

from __future__ import annotations

from dataclasses import dataclass

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
class Fifo:
    """Keep a cluster, give every job the same width, and let jobs wait in the order of their arrival."""

    cluster_gpus: int | None = None  # size of the cluster; None takes the budget
    gpus: int = 4  # width of every job; a class that may not have it gets the next narrower one

    def __post_init__(self) -> None:
        at_least_one("gpus", self.gpus)

    @staticmethod
    def knobs(fleet: Fleet) -> list[Knob]:
        """Return a variant for each width; its knob is the size of the cluster."""
        return [_of_width(gpus, fleet) for gpus in doubled_widths(fleet)]

    def begin(self, fleet: Fleet) -> FifoRun:
        """Look up each class's width. Raises InputError when a class does not fit into the cluster."""
        size = cluster_size(fleet, self.cluster_gpus)
        return FifoRun(size, fitting_widths(fleet, self.gpus, size))


def _of_width(gpus: int, fleet: Fleet) -> Knob:
    return Knob(lambda size: Fifo(int(size), gpus), *cluster_sizes(fleet), True)


@dataclass(frozen=True, slots=True)
class FifoRun:
    """Serves jobs in the order of their arrival."""

    size_gpus: int
    widths: Ints  # [stage]

    def rent_gpus(self, view: FleetView) -> int:
        return self.size_gpus

    def decide(self, view: FleetView) -> Wanted:
        wanted = self.widths[view.stage]
        return Wanted(np.where(np.cumsum(wanted) <= self.size_gpus, wanted, 0))
