"""A fleet: classes of jobs, what may be spent on them, and the machines they run on; with its tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass, speedups_at, width_array
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, shown
from slacktide.core.units import MAX_GPUS


class Stages(NamedTuple):
    """Every phase of every class in one row of tables; a stage is one phase of one class.

    Stage `first[c] + p` is phase p of class c, so a job is described by one number.
    """

    first: Ints
    """First stage of each class, and one past the last stage of all."""
    work_gpu_hours: Floats
    """Mean work of each stage."""
    rate: Floats
    """[stage, width]: progress per hour, 0 where the width is not allowed."""
    restart_hours: Floats
    """[stage]: hours without progress after a start or a change of width."""
    narrower: Ints
    """[stage, width]: the greatest allowed width that is no wider, 0 if there is none."""
    least: Ints
    """[stage]: the narrowest allowed width."""


@dataclass(frozen=True)
class Fleet:
    """What an allocator may know from the start.

    Raises InputError for an impossible number.
    """

    classes: tuple[JobClass, ...]
    budget_gpus: float = math.inf
    """GPUs that may be rented on average over time."""
    node_gpus: int = 1
    """GPUs are rented in nodes of this many."""
    provisioning_hours: float = 0.0
    """From the request for a node until it can be used, billed; a job's restart comes after that."""
    idle_grace_hours: float = 0.0
    """How long a node that is not needed is kept."""

    def __post_init__(self) -> None:
        if not self.classes:
            raise InputError("a fleet must have at least one class, got none")
        if not self.budget_gpus > 0:
            raise InputError(f"budget_gpus must be > 0, got {self.budget_gpus:g}")
        if not 1 <= self.node_gpus <= MAX_GPUS:
            must = ">= 1" if self.node_gpus < 1 else f"<= {MAX_GPUS}"
            raise InputError(f"node_gpus must be {must}, got {shown(self.node_gpus)}")
        for name in ("provisioning_hours", "idle_grace_hours"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(f"{name} must be >= 0, got {getattr(self, name):g}")

    @cached_property
    def stages(self) -> Stages:
        phases = [len(job_class.phases) for job_class in self.classes]
        widest = max(job_class.widths[-1] for job_class in self.classes)
        rate = np.zeros((sum(phases), widest + 1))
        row = 0
        for job_class in self.classes:
            for phase in job_class.phases:
                widths = width_array(job_class.widths)
                rate[row, widths.astype(np.int64)] = speedups_at(phase.speedup, widths)
                row += 1
        allowed = np.where(rate > 0, np.arange(widest + 1), 0)
        return Stages(
            first=np.concatenate(([0], np.cumsum(phases))).astype(np.int64),
            work_gpu_hours=np.array(
                [phase.work_gpu_hours for job_class in self.classes for phase in job_class.phases]
            ),
            rate=rate,
            restart_hours=np.repeat([job_class.restart_hours for job_class in self.classes], phases),
            narrower=np.maximum.accumulate(allowed, axis=1),
            least=np.repeat([job_class.widths[0] for job_class in self.classes], phases).astype(np.int64),
        )
