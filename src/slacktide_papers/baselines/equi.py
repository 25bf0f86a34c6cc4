"""Equal shares of a cluster of fixed size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.view import FleetView, Wanted
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.simulation.fleet.tuning import Knob
from slacktide_papers.baselines.fixed_cluster import cluster_size, fitting_widths
from slacktide_papers.baselines.shares import cluster_sizes


@allocators.register
@dataclass(frozen=True, slots=True)
class Equi:
    """Keep a cluster and share it equally among all jobs that are present.

    No job gets more than makes it faster; the others share what it cannot use. Widths are whole: earlier
    jobs get what is left over.
    """

    cluster_gpus: int | None = None  # size of the cluster; None takes the budget

    @staticmethod
    def knobs(fleet: Fleet) -> list[Knob]:
        """Return the knob: the size of the cluster."""
        return [Knob(lambda size: Equi(int(size)), *cluster_sizes(fleet), True)]

    def begin(self, fleet: Fleet) -> EquiRun:
        """Look up the fastest width of each class. Raises InputError when a class does not fit."""
        size = cluster_size(fleet, self.cluster_gpus)
        fitting_widths(fleet, size, size)
        rate = fleet.stages.rate[:, : size + 1]
        return EquiRun(size, np.argmax(rate, axis=1), fleet.stages.narrower)


@dataclass(frozen=True, slots=True)
class EquiRun:
    """Gives every job the same, as far as its widths allow and it gets faster."""

    size_gpus: int
    fastest: Ints  # [stage]: the width beyond which a job is not faster
    narrower: Ints

    def rent_gpus(self, view: FleetView) -> int:
        return self.size_gpus

    def decide(self, view: FleetView) -> Wanted:
        widths = np.zeros(len(view.jobs.ids), dtype=np.int64)
        compiled(share_equally)(view.stage, self.fastest, self.narrower, self.size_gpus, widths)
        return Wanted(widths)


@compilable
def share_equally(stage: Ints, fastest: Ints, narrower: Ints, gpus: int, widths: Ints) -> None:
    """Write equal shares of some GPUs into `widths`, each cut to an allowed width."""
    low, high = 0, gpus
    while low < high:  # the greatest level up to which all can be filled
        level = (low + high + 1) // 2
        filled = 0
        for job in range(len(stage)):
            filled += min(level, fastest[stage[job]])
        if filled <= gpus:
            low = level
        else:
            high = level - 1
    left = gpus
    for job in range(len(stage)):
        left -= min(low, fastest[stage[job]])
    for job in range(len(stage)):
        share = min(low, fastest[stage[job]])
        if left > 0 and fastest[stage[job]] > low:
            share += 1
            left -= 1
        widths[job] = narrower[stage[job], share]
        left += share - widths[job]
    left = hand_out(stage, fastest, narrower, left, widths, True)
    before = left + 1
    while left < before:
        before = left
        left = hand_out(stage, fastest, narrower, left, widths, False)


@compilable
def hand_out(stage: Ints, fastest: Ints, narrower: Ints, gpus: int, widths: Ints, only_waiting: bool) -> int:
    """Raise jobs to their next allowed width in the order of arrival; return the GPUs that are left."""
    for job in range(len(stage)):
        if only_waiting and widths[job] > 0:
            continue
        wider = widths[job] + 1
        while wider <= fastest[stage[job]] and narrower[stage[job], wider] != wider:
            wider += 1
        if wider <= fastest[stage[job]] and wider - widths[job] <= gpus:
            gpus -= wider - widths[job]
            widths[job] = wider
    return gpus
