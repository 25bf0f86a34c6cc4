"""A stream: when jobs arrive, of which class they are and how large each is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError
from slacktide.core.types import Phase


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Jobs in the order of their arrival; three arrays of one length, read-only.

    Time 0 is when one begins to look, and the last arrival is when one stops: averages over time are
    taken over the hours between. Raises InputError when a number cannot be meant.
    """

    arrival_hours: Floats
    """Ascending, in hours since the stream began."""
    class_index: Ints
    """Which of the fleet's classes each job is of."""
    size: Floats
    """Each job's work as a multiple of its class's mean; every phase is scaled by it."""

    def __post_init__(self) -> None:
        for name, kind in (("arrival_hours", np.float64), ("class_index", np.int64), ("size", np.float64)):
            array = np.ascontiguousarray(getattr(self, name), dtype=kind)
            if array.base is not None or array.flags.writeable:
                array = array.copy()
                array.flags.writeable = False
            object.__setattr__(self, name, array)
        self._check()

    def _check(self) -> None:
        lengths = {len(self.arrival_hours), len(self.class_index), len(self.size)}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(
                f"a stream's arrays must be of one length and hold a job, got {sorted(lengths)} jobs"
            )
        if not np.isfinite(self.arrival_hours).all() or self.arrival_hours[0] < 0:
            raise InputError("arrivals must be finite and >= 0 hours")
        if (np.diff(self.arrival_hours) < 0).any():
            raise InputError("arrivals must ascend; sort the jobs by their time")
        if not (np.isfinite(self.size).all() and (self.size > 0).all()):
            raise InputError(f"sizes must be > 0, got {self.size.min():g}")
        if (self.class_index < 0).any():
            raise InputError(f"class_index must be >= 0, got {self.class_index.min()}")

    def __len__(self) -> int:
        return len(self.arrival_hours)

    @property
    def hours(self) -> float:
        """The time over which the jobs arrived."""
        return float(self.arrival_hours[-1])

    def head(self, count: int) -> Stream:
        """Return the first jobs of the stream."""
        return Stream(self.arrival_hours[:count], self.class_index[:count], self.size[:count])

    def sped_up(self, from_hours: float, factor: float) -> Stream:
        """Return the stream with everything after a time coming this many times as fast."""
        if not factor > 0:
            raise InputError(f"factor must be > 0, got {factor:g}")
        late = np.maximum(self.arrival_hours - from_hours, 0.0)
        return Stream(self.arrival_hours - late + late / factor, self.class_index, self.size)


def numbers_in_class(class_index: Ints) -> Ints:
    """Return for each job how many of its class came before it."""
    numbers = np.empty(len(class_index), dtype=np.int64)
    for index in range(int(class_index.max(initial=-1)) + 1):
        members = np.flatnonzero(class_index == index)
        numbers[members] = np.arange(len(members))
    return numbers


def realised_classes(classes: Sequence[JobClass], stream: Stream) -> tuple[JobClass | None, ...]:
    """Return the classes with the rates and mean work that a stream really had; None where no job came.

    With them the frontier is the best that any policy could have done on this very stream; with restarts,
    that any policy could have done which gives the jobs of a class the same widths.
    """
    counts = np.bincount(stream.class_index, minlength=len(classes))
    sizes = np.bincount(stream.class_index, weights=stream.size, minlength=len(classes))
    return tuple(
        _rescaled(one, count / stream.hours, size / count) if count else None
        for one, count, size in zip(classes, counts.tolist(), sizes.tolist(), strict=True)
    )


def _rescaled(one: JobClass, arrivals_per_hour: float, size: float) -> JobClass:
    phases = tuple(Phase(phase.work_gpu_hours * size, phase.speedup) for phase in one.phases)
    return JobClass(dataclasses.replace(one.job, phases=phases), arrivals_per_hour)
