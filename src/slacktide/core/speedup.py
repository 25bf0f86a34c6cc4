"""How much faster a job runs on n GPUs than on one: s(n).

Progress per hour on n GPUs is s(n) reference GPU-hours and s(0) = 0. Every speedup is a small
frozen value with one method, so a job can carry it, print it and compare it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol, runtime_checkable

from slacktide.core.errors import InputError

LEAST_RATE, MOST_RATE = 1e-12, 1e12
"""Speedups outside these limits are mistakes, and their squares would come close to 0 or infinity."""


def is_rate(number: float) -> bool:
    """Whether a number may be a speedup."""
    return LEAST_RATE <= number <= MOST_RATE


def check_rate(number: float, what: str, field: str = "") -> None:
    """Raise InputError for a number that cannot be a speedup."""
    if not is_rate(number):
        must = "> 0" if not number > 0 else f"in {LEAST_RATE:g}..{MOST_RATE:g}"
        raise InputError(f"{what} must be {must}, got {number:g}", field=field)


@runtime_checkable
class Speedup(Protocol):
    """Progress per hour on n GPUs, in GPU-hours of the reference GPU."""

    def __call__(self, gpus: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Linear:
    """s(n) = alpha * n + beta for n >= 1: the form of Kong et al. 2025."""

    alpha: float = 1.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise InputError(f"linear speedup: alpha must be > 0, got {self.alpha}")
        if max(self.alpha, abs(self.beta)) > MOST_RATE:
            came = f"{self.alpha:g} and {self.beta:g}"
            raise InputError(f"linear speedup: alpha and beta must be <= {MOST_RATE:g}, got {came}")
        if not (math.isfinite(self.beta) and self.alpha + self.beta > 0):
            raise InputError(f"linear speedup: alpha + beta must be > 0, got {self.alpha + self.beta}")

    def __call__(self, gpus: float) -> float:
        return self.alpha * gpus + self.beta if gpus > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Amdahl:
    """s(n) = 1 / (1 - f + f / n), where f is the share of the work that runs in parallel."""

    parallel_share: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.parallel_share <= 1.0:
            raise InputError(
                f"amdahl speedup: the parallel share must be in [0, 1], got {self.parallel_share}"
            )

    def __call__(self, gpus: float) -> float:
        if gpus <= 0:
            return 0.0
        return 1.0 / (1.0 - self.parallel_share + self.parallel_share / gpus)


@dataclass(frozen=True, slots=True)
class Power:
    """s(n) = n ** exponent."""

    exponent: float

    def __post_init__(self) -> None:
        if not 0.0 < self.exponent <= 1.0:
            raise InputError(f"power speedup: the exponent must be in (0, 1], got {self.exponent}")

    def __call__(self, gpus: float) -> float:
        return float(gpus**self.exponent) if gpus > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Table:
    """Measured speedups; the speedup at any width is read from their upper concave hull.

    A measured point under the hull is noise (a job can always be run as a mix of its
    neighbours), so the hull through the origin replaces it. Widths beyond the widest point
    have its speedup, because no higher one was measured.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise InputError("speedup table: at least one width must be given, got none")
        seen = set()
        for gpus, rate in self.points:
            if not (math.isfinite(gpus) and gpus >= 1):
                raise InputError(f"speedup table: a width must be >= 1, got {gpus}")
            check_rate(rate, f"speedup table: the speedup at {gpus:g} GPUs")
            if gpus in seen:
                raise InputError(f"speedup table: each width must come once, got {gpus:g} twice")
            seen.add(gpus)
        object.__setattr__(self, "points", tuple(sorted(self.points)))

    @classmethod
    def of(cls, mapping: Mapping[int, float]) -> Table:
        """Build a table from a mapping of width to speedup."""
        return cls(tuple((float(gpus), float(rate)) for gpus, rate in mapping.items()))

    def hull(self) -> tuple[tuple[float, float], ...]:
        """Return the corners of the upper concave hull, starting at the origin."""
        return concave_hull(((0.0, 0.0), *self.points))

    def __call__(self, gpus: float) -> float:
        if gpus <= 0:
            return 0.0
        corners = self.hull()
        for (x0, y0), (x1, y1) in pairwise(corners):
            if gpus <= x1:
                return y0 + (y1 - y0) * (gpus - x0) / (x1 - x0)
        return corners[-1][1]


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another speedup on GPUs that are `factor` times as fast as the reference GPU."""

    inner: Speedup
    factor: float

    def __post_init__(self) -> None:
        check_rate(self.factor, "scaled speedup: the factor")

    def __call__(self, gpus: float) -> float:
        return self.factor * self.inner(gpus)


CONCAVE = (Linear, Amdahl, Power, Table)
"""The speedups that are known to be concave; a user's own may not be."""


@lru_cache(maxsize=256)  # a table is read one width at a time
def concave_hull(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Return the corners of the upper concave hull of points sorted by their first value."""
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) >= 2:
            (x0, y0), (x1, y1) = hull[-2], hull[-1]
            if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return tuple(hull)
