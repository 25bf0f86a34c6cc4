"""A stream: when jobs arrive, of which class they are and how large each is; recorded, or drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.types import Phase

LOGNORMAL_SIGMA = 1.0
"""Spread of lognormal sizes: their standard deviation is 1.3 times their mean."""
PARETO_SHAPE = 2.2
"""Tail of Pareto sizes: the mean is finite, the variance just so."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Jobs in the order of their arrival; three arrays of one length, read-only.

    Averages over time are taken over the hours from time 0 to the last arrival. Raises InputError for an
    impossible number.
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
        return Stream(self.arrival_hours[:count], self.class_index[:count], self.size[:count])

    def sped_up(self, from_hours: float, factor: float) -> Stream:
        """Return the stream with all jobs after a time arriving this many times as fast."""
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

    Their frontier is the best that any policy could have done on this very stream; with restarts, the best
    among policies that give all jobs of a class the same widths.
    """
    counts = np.bincount(stream.class_index, minlength=len(classes))
    sizes = np.bincount(stream.class_index, weights=stream.size, minlength=len(classes))
    return tuple(
        _rescaled(job_class, count / stream.hours, size / count) if count else None
        for job_class, count, size in zip(classes, counts.tolist(), sizes.tolist(), strict=True)
    )


def _rescaled(job_class: JobClass, arrivals_per_hour: float, size: float) -> JobClass:
    phases = tuple(Phase(phase.work_gpu_hours * size, phase.speedup) for phase in job_class.phases)
    return JobClass(replace(job_class.job, phases=phases), arrivals_per_hour)


class Bursts(NamedTuple):
    """How arrivals come in bursts: calm and busy spells of random length, at one long-run rate.

    With the defaults gaps vary 1.6 times as much as in a Poisson stream, and counts 10 times; in streams of
    real clusters these figures are 1.2 to 2.7 and 5 to 9.
    """

    factor: float = 5.0
    """How many times as fast as on average jobs arrive in a busy spell."""
    time_share: float = 0.12
    """Share of the time that is busy."""
    jobs: float = 12.0
    """Mean number of jobs in a busy spell."""

    @property
    def calm_factor(self) -> float:
        """The rate of calm spells in multiples of the average: such that the average is 1."""
        return (1.0 - self.factor * self.time_share) / (1.0 - self.time_share)


def draw_stream(
    classes: Sequence[JobClass],
    count: int,
    *,
    arrivals: str = "poisson",
    sizes: str = "exponential",
    seed: int = 0,
    pareto_shape: float = PARETO_SHAPE,
    bursts: Bursts | None = None,
) -> Stream:
    """Draw the arrivals of a stream; the same seed draws the same stream.

    Each job is of a class with the probability that the rates give it. Raises InputError for an
    impossible number and for an unknown name.
    """
    if count < 1:
        raise InputError(f"a stream must have at least one job, got {count}")
    if seed < 0:
        raise InputError(f"seed must be >= 0, got {seed}")
    times, works, kinds = (
        np.random.default_rng(sequence) for sequence in np.random.SeedSequence(seed).spawn(3)
    )
    rates = np.array([job_class.arrivals_per_hour for job_class in classes])
    clock = np.cumsum(times.exponential(size=count))
    if arrivals not in ARRIVALS:
        raise UnknownNameError("arrivals", arrivals, ARRIVALS)
    if arrivals == "bursty":
        clock = _bursty(clock, bursts or Bursts(), times)
    size = _sizes(works, count, sizes, pareto_shape)
    bounds = np.cumsum(rates)[:-1] / rates.sum()
    class_index = np.searchsorted(bounds, kinds.random(count), side="right")
    return Stream(clock / rates.sum(), class_index, size)


def draw_sizes(count: int, sizes: str, *, seed: int = 0, pareto_shape: float = PARETO_SHAPE) -> Floats:
    """Draw sizes for jobs whose arrivals are known."""
    return _sizes(np.random.default_rng(seed), count, sizes, pareto_shape)


def _sizes(rng: np.random.Generator, count: int, sizes: str, pareto_shape: float) -> Floats:
    if sizes not in SIZES:
        raise UnknownNameError("sizes", sizes, SIZES)
    return SIZES[sizes](rng, count, pareto_shape)


ARRIVALS = ("poisson", "bursty")
"""How jobs may arrive: one by one at random, or in calm and busy spells."""


def _bursty(clock: Floats, bursts: Bursts, rng: np.random.Generator) -> Floats:
    """Turn arrivals at rate 1 into arrivals at a rate that changes from spell to spell.

    `clock` counts expected arrivals; the spells say how many hours pass while it moves on.
    """
    if not (0 < bursts.time_share < 1 and 1 < bursts.factor <= 1 / bursts.time_share and bursts.jobs > 0):
        raise InputError(f"bursts must have a factor in (1, 1 / time_share] and jobs > 0, got {bursts}")
    busy_hours = bursts.jobs / bursts.factor
    calm_hours = busy_hours * (1.0 - bursts.time_share) / bursts.time_share
    cycles = max(8, math.ceil(2.0 * clock[-1] / (busy_hours + calm_hours)) + 8)
    while True:
        hours = rng.exponential((calm_hours, busy_hours), size=(cycles, 2))
        passed = np.concatenate(([0.0], np.cumsum(hours)))
        came = np.concatenate(([0.0], np.cumsum(hours * (bursts.calm_factor, bursts.factor))))
        if came[-1] >= clock[-1]:
            break
        cycles *= 2
    # Where nothing comes in calm spells `came` is flat there, and a jump over them is right.
    found: Floats = np.interp(clock, came, passed)
    return found


def _pareto(rng: np.random.Generator, count: int, shape: float) -> Floats:
    if not shape > 1:
        raise InputError(f"pareto_shape must be > 1 for a finite mean, got {shape:g}")
    return (rng.pareto(shape, size=count) + 1.0) * ((shape - 1.0) / shape)


SIZES: Mapping[str, Callable[[np.random.Generator, int, float], Floats]] = {
    "exponential": lambda rng, count, _: rng.exponential(size=count),
    "fixed": lambda _rng, count, _: np.ones(count),
    # The mean of a lognormal is exp(mu + sigma**2 / 2): with this mu it is one.
    "lognormal": lambda rng, count, _: rng.lognormal(-0.5 * LOGNORMAL_SIGMA**2, LOGNORMAL_SIGMA, size=count),
    "pareto": _pareto,
}
"""How sizes may be spread, all with mean one."""
