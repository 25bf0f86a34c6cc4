"""What a stream is made of: classes of jobs that are alike and arrive at a rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import CONCAVE, Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, Phase

_IGNORED = tuple(
    (one.name, one.default)
    for one in fields(Job)
    if one.name not in ("name", "work_gpu_hours", "speedup", "phases", "restart_hours", "widths")
)
"""The fields of a job that a stream ignores, each with its default."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """A template of jobs and how often one comes; the template's work is that of the mean job.

    Raises InputError when the rate cannot be meant, or when the template has what a stream ignores, such as
    a deadline.
    """

    job: Job
    arrivals_per_hour: float
    speedup_said: bool = True
    """Whether its file says how it scales; else its speedup is only what is assumed of all."""
    phases: tuple[Phase, ...] = field(init=False, repr=False, compare=False)
    """What a job passes through, in order; one phase where the template names none."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.arrivals_per_hour) and self.arrivals_per_hour > 0):
            raise InputError(
                f"class {shown(self.name)}: arrivals_per_hour must be > 0, got {self.arrivals_per_hour:g}"
            )
        for name, without in _IGNORED:
            if (came := getattr(self.job, name)) != without:
                raise InputError(
                    f"class {shown(self.name)}: {name} must be left out of a class of a stream, got {came}",
                    field=name,
                )
        object.__setattr__(self, "phases", self.job.parts)

    @property
    def name(self) -> str:
        """What the class is called: the name of its template."""
        return self.job.name

    @property
    def work_gpu_hours(self) -> float:
        """Mean work of a job, over all its phases."""
        return self.job.work_gpu_hours

    @property
    def restart_hours(self) -> float:
        """Hours without progress after a start, the first one included, and after every change of width."""
        return self.job.restart_hours

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths a job may have, ascending."""
        return self.job.widths

    @property
    def load_gpus(self) -> float:
        """Work that arrives per hour: the GPUs it would keep busy one by one, the rho of the papers."""
        return self.arrivals_per_hour * self.work_gpu_hours


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """A class of jobs that share one market and its money; where a job says nothing, this counts."""

    job: Job
    """What such a job is like; its work is that of the mean job, its deadline counts from submission."""
    arrivals_per_hour: float
    weight: float = 1.0
    """How many times as much as a usual job's an hour of its waiting counts."""
    patience_hours: float = math.nan
    """How long it may go without GPUs before it rents on demand; not a number: as the allocator thinks."""

    @property
    def name(self) -> str:
        return self.job.name


def load_gpus(templates: Iterable[JobTemplate]) -> float:
    """Return the work that classes bring per hour: the GPUs that it would keep busy one by one."""
    return sum(one.arrivals_per_hour * one.job.work_gpu_hours for one in templates)


@lru_cache(maxsize=64)
def width_array(widths: tuple[int, ...]) -> Floats:
    """Return widths as an array: classes share their tuples, and arrays are slow to make of them."""
    found = np.array(widths, dtype=np.float64)
    found.flags.writeable = False
    return found


def speedups_at(speedup: Speedup, widths: Floats) -> Floats:
    """Evaluate a speedup at many widths at once; those that are not exactly ours one by one."""
    if type(speedup) not in CONCAVE:
        return np.array([float(speedup(width)) for width in widths.tolist()])
    found: Floats
    if isinstance(speedup, Linear):
        found = speedup.alpha * widths + speedup.beta
    elif isinstance(speedup, Power):
        found = widths**speedup.exponent
    elif isinstance(speedup, Amdahl):
        found = 1.0 / (1.0 - speedup.parallel_share + speedup.parallel_share / widths)
    else:
        assert isinstance(speedup, Table)
        corners = np.array(speedup.hull())
        found = np.interp(widths, corners[:, 0], corners[:, 1])
    return found
