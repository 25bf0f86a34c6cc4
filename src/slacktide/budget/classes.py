"""Classes of jobs that are alike and arrive at a rate, and the jobs of a fleet, each of a class."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import CONCAVE, Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, Phase

_IGNORED = tuple(
    (item.name, item.default)
    for item in fields(Job)
    if item.name not in ("name", "work_gpu_hours", "speedup", "phases", "restart_hours", "widths")
)
"""The fields of a job that a stream ignores, each with its default."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """A template of jobs and how often one comes; the template's work is that of the mean job.

    Raises InputError for an impossible rate, or when the template has what a stream ignores, such as
    a deadline.
    """

    job: Job
    arrivals_per_hour: float
    speedup_said: bool = True
    """Whether its file says how it scales; else its speedup is the general assumption."""
    phases: tuple[Phase, ...] = field(init=False, repr=False, compare=False)
    """The phases of a job, in order; one phase if the template names none."""

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
    """A class of jobs that share one market and its money; jobs take from it what they do not say."""

    job: Job
    """What such a job is like; its work is that of the mean job, its deadline counts from submission."""
    arrivals_per_hour: float
    weight: float = 1.0
    """How many times as much an hour of its waiting counts as that of a usual job."""
    patience_hours: float = math.nan
    """How long it may go without GPUs before it rents on demand; not-a-number: the allocator decides."""

    @property
    def name(self) -> str:
        return self.job.name

    def member(self, submitted_hours: float, size: float) -> Member:
        """Return a job of this class whose work is `size` times that of the mean job."""
        return Member(
            submitted_hours,
            self.job,
            size * self.job.work_gpu_hours,
            weight=self.weight,
            patience_hours=self.patience_hours,
            kind=self.name,
        )


@dataclass(frozen=True, slots=True)
class Member:
    """A job of a fleet: when it comes, the template of its class, and its own figures."""

    submitted_hours: float  # on the clock of the run
    template: Job
    """What it shares with its class, including work, deadline and value if these are None below."""
    work_gpu_hours: float | None = None
    deadline_hours: float | None = None  # from its submission; infinite: none
    value_usd: float | None = None
    weight: float = 1.0
    patience_hours: float = math.nan
    """How long it may go without GPUs before it rents on demand; not-a-number: the allocator decides."""
    name: str = ""
    kind: str = ""  # its class
    owner: str = ""

    @property
    def work(self) -> float:
        return self.template.work_gpu_hours if self.work_gpu_hours is None else self.work_gpu_hours

    @property
    def value(self) -> float:
        return self.template.value_usd if self.value_usd is None else self.value_usd

    @property
    def due_hours(self) -> float:
        """Hours from its submission to its deadline; infinite without one."""
        return self.template.deadline_hours if self.deadline_hours is None else self.deadline_hours

    @property
    def hard(self) -> bool:
        """Whether being late is a failure."""
        return self.due_hours < math.inf and self.worthless_hours <= self.due_hours

    @property
    def worthless_hours(self) -> float:
        """Hours from its submission until its result is worthless: in its class's ratio to the deadline."""
        late = self.template.worthless_after_hours
        if late is None or self.due_hours == math.inf:
            return self.due_hours
        own = self.template.deadline_hours
        return self.due_hours * (late / own if own < math.inf else 1.0)

    @property
    def job(self) -> Job:
        """The job as its own file would describe it."""
        size = self.work / self.template.work_gpu_hours
        phases = tuple(Phase(phase.work_gpu_hours * size, phase.speedup) for phase in self.template.parts)
        late = self.worthless_hours if self.worthless_hours > self.due_hours else None
        return replace(
            self.template,
            name=self.name or self.template.name,
            phases=phases,
            deadline_hours=self.due_hours,
            worthless_after_hours=late,
            value_usd=self.value,
        )


@lru_cache(maxsize=64)
def width_array(widths: tuple[int, ...]) -> Floats:
    """Return widths as an array; cached, because classes share tuples that are slow to convert."""
    found = np.array(widths, dtype=np.float64)
    found.flags.writeable = False
    return found


def speedups_at(speedup: Speedup, widths: Floats) -> Floats:
    """Evaluate a speedup at many widths: at once if it is one of our own forms, else one by one."""
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
