"""What allocators share: their register, widths that are settled from the start, and looking widths up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from slacktide.allocators.view import Allocator, AnyAllocator, FleetView, Wanted
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError
from slacktide.core.register import Register

allocators: Register[AnyAllocator] = Register(
    "allocator",
    packages=("slacktide.allocators", "slacktide.allocators.streams"),
    entry_points="slacktide.allocators",
    view="FleetView",
    papers=("each-alone", "earliest-deadline", "efficiency-band", "equi", "fifo", "on-demand-widths", "srpt"),
)
"""All known allocators; `@allocators.register` adds one."""


class SettledWays(NamedTuple):
    """Widths that are settled when a job arrives: one or two ways for each class.

    Job n of a class goes the wide way iff floor((n + 1) p) > floor(n p) for the share p, so that after any
    number of jobs the count of wide ones is off by less than one; random draws would be off by its root.
    """

    narrow: Ints
    """[stage]: the width of jobs that go the narrow way."""
    wide: Ints
    wide_share: Floats
    """[class]: share of the jobs that go the wide way."""

    def are_wide(self, kind: Ints, number: Ints) -> np.typing.NDArray[np.bool_]:
        """Whether each job goes the wide way."""
        share = self.wide_share[kind]
        return np.floor((number + 1) * share) > np.floor(number * share)


@runtime_checkable
class Settled(Allocator, Protocol):
    """An allocator whose jobs never depend on one another, so that a run needs no events."""

    @property
    def ways(self) -> SettledWays: ...


@dataclass(frozen=True, slots=True)
class SettledWidths:
    """An allocator that starts every job at once on its settled width, which changes only with its phase."""

    ways: SettledWays

    def decide(self, view: FleetView) -> Wanted:
        stage = view.stage
        narrow, wide, share = self.ways
        if not share.any():
            return Wanted(narrow[stage])
        return Wanted(
            np.where(self.ways.are_wide(view.jobs.kind, view.jobs.number), wide[stage], narrow[stage])
        )


def allowed_widths(fleet: Fleet, gpus: int) -> Ints:
    """Return for each stage the widest allowed width within this many GPUs, or the narrowest if none is."""
    narrower = fleet.stages.narrower
    widths: Ints = np.maximum(narrower[:, min(gpus, narrower.shape[1] - 1)], fleet.stages.least)
    return widths


def at_least_one(name: str, gpus: float) -> None:
    """Raise InputError unless an allocator's parameter, a number of GPUs, is at least 1."""
    if not gpus >= 1:
        raise InputError(f"{name} must be >= 1, got {gpus:g}")
