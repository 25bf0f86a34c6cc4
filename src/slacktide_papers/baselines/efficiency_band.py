"""A cluster that grows and shrinks with the efficiency of its jobs, as Pollux's does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.view import FleetView, Wanted
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError
from slacktide.simulation.fleet.tuning import Knob
from slacktide_papers.baselines.shares import Steps, share_by_gain, size_for_efficiency, steps_of


@allocators.register
@dataclass(frozen=True, slots=True)
class EfficiencyBand:
    """Keep the mean efficiency of rented GPUs in a band, and give each GPU to the job that gains most.

    Efficiency is the sum of speedups divided by the GPUs rented. When it leaves the band, the cluster is
    resized to bring it back to the middle (the autoscaling of Pollux, OSDI 2021, with speedups for goodput).
    """

    efficiency: float = 0.6  # middle of the band
    band_share: float = 0.1  # how far the efficiency may be off, as a share of the middle
    round_hours: float = 0.0
    """Least time between two reallocations; in between new jobs take free GPUs and no job is resized."""

    def __post_init__(self) -> None:
        if not 0 < self.efficiency <= 1:
            raise InputError(f"efficiency must be in (0, 1], got {self.efficiency:g}")
        if not self.band_share >= 0:
            raise InputError(f"band_share must be >= 0, got {self.band_share:g}")
        if not self.round_hours >= 0:
            raise InputError(f"round_hours must be >= 0, got {self.round_hours:g}")

    @staticmethod
    def knobs(fleet: Fleet) -> list[Knob]:
        """Return a variant for each band and round; its knob is how inefficient it may be."""
        restart = max(one.restart_hours for one in fleet.classes)
        rounds = (0.0, 5 * restart, 20 * restart) if restart > 0 else (0.0,)
        return [_with_band(share, hours) for share in (0.05, 0.15) for hours in rounds]

    def begin(self, fleet: Fleet) -> BandRun:
        """Sort all steps from width to width by what they gain."""
        return BandRun(self, steps_of(fleet))


def _with_band(share: float, round_hours: float) -> Knob:
    # A greater value of a knob must spend more, so the knob is the waste and not the efficiency.
    return Knob(lambda waste: EfficiencyBand(1.0 - waste, share, round_hours), 0.0, 0.98, False)


@dataclass(slots=True)
class BandRun:
    """Resizes the cluster and shares it again when a round is over or a job cannot start."""

    band: EfficiencyBand
    steps: Steps
    due_hours: float = -math.inf  # when the next reallocation is allowed
    now_due: bool = True  # whether the next decision reallocates

    def remember(self) -> Mapping[str, Any]:
        """Return when it may reallocate, as JSON values; None in place of minus infinity."""
        due_hours = None if self.due_hours == -math.inf else self.due_hours
        return {"due_hours": due_hours, "now_due": self.now_due}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Restore what `remember` returned."""
        due_hours = memory["due_hours"]
        self.due_hours = -math.inf if due_hours is None else due_hours
        self.now_due = memory["now_due"]

    def rent_gpus(self, view: FleetView) -> int:
        if not len(view.jobs.ids):
            return 0
        stage = view.stage
        gpus = view.jobs.gpus
        free = view.ready_gpus - int(gpus.sum())
        starved = int(self.steps.least[stage[gpus == 0]].sum()) > free
        self.now_due = starved or view.now_hours >= self.due_hours
        return self._size(view.rented_gpus, stage) if self.now_due else view.rented_gpus

    def _size(self, size_gpus: int, stage: Ints) -> int:
        """Return the size for these jobs; no job is left waiting for the sake of efficiency."""
        middle = self.band.efficiency
        if int(self.steps.least[stage].sum()) <= size_gpus:
            speed = float(self.steps.rate[stage, self._shared(stage, size_gpus)].sum())
            if abs(speed - middle * size_gpus) <= self.band.band_share * middle * size_gpus:
                return size_gpus
        return int(compiled(size_for_efficiency)(stage, self.steps, middle))

    def decide(self, view: FleetView) -> Wanted:
        if self.now_due:
            self.due_hours = view.now_hours + self.band.round_hours
            return Wanted(self._shared(view.stage, view.ready_gpus), rule="reallocated")
        return Wanted(self._started(view), rule="between reallocations")

    def _shared(self, stage: Ints, gpus: int) -> Ints:
        widths = np.zeros(len(stage), dtype=np.int64)
        compiled(share_by_gain)(stage, self.steps, gpus, widths)
        return widths

    def _started(self, view: FleetView) -> Ints:
        """Keep every job's width, and share what is free among waiting jobs where it speeds up most."""
        widths = view.jobs.gpus
        waiting = np.flatnonzero(widths == 0)
        if len(waiting):
            free = view.ready_gpus - int(widths.sum())
            widths[waiting] = self._shared(view.stage[waiting], free)
        return widths
