"""Streams drawn at random, seeded: Poisson or bursty arrivals, sizes from fixed to heavy-tailed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.stream import Stream
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, UnknownNameError

LOGNORMAL_SIGMA = 1.0
"""Spread of lognormal sizes: their standard deviation is 1.3 times their mean."""
PARETO_SHAPE = 2.2
"""Tail of Pareto sizes: the mean is finite, the variance just so."""


class Bursts(NamedTuple):
    """How arrivals come in bursts: calm and busy spells of random length, at one long-run rate.

    As it stands gaps vary 1.6 times as much as a Poisson stream's, and counts 10 times; of real clusters'
    streams those figures are 1.2 to 2.7 and 5 to 9.
    """

    factor: float = 5.0
    """How many times as fast as on average jobs come in a busy spell."""
    time_share: float = 0.12
    """Share of the time that is busy."""
    jobs: float = 12.0
    """Mean number of jobs in a busy spell."""

    @property
    def calm_factor(self) -> float:
        """The pace of calm spells, so that the average is one."""
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

    Each job is of a class with the probability that the rates give it. Raises InputError for a number or
    a name that cannot be meant.
    """
    if count < 1:
        raise InputError(f"a stream must have at least one job, got {count}")
    if seed < 0:
        raise InputError(f"seed must be >= 0, got {seed}")
    times, works, kinds = (np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(3))
    rates = np.array([one.arrivals_per_hour for one in classes])
    clock = np.cumsum(times.exponential(size=count))
    if _known("arrivals", arrivals, ARRIVALS) == "bursty":
        clock = _bursty(clock, bursts or Bursts(), times)
    size = _sizes(works, count, sizes, pareto_shape)
    return Stream(clock / rates.sum(), _classes(kinds, rates, count), size)


def draw_sizes(count: int, sizes: str, *, seed: int = 0, pareto_shape: float = PARETO_SHAPE) -> Floats:
    """Draw sizes for jobs whose arrivals are known."""
    return _sizes(np.random.default_rng(seed), count, sizes, pareto_shape)


def _sizes(rng: np.random.Generator, count: int, sizes: str, pareto_shape: float) -> Floats:
    return SIZES[_known("sizes", sizes, SIZES)](rng, count, pareto_shape)


ARRIVALS = {
    "poisson": "one by one, at random",
    "bursty": "at random, in calm and busy spells",
}
"""How jobs may arrive, each with its description."""


def _bursty(clock: Floats, bursts: Bursts, rng: np.random.Generator) -> Floats:
    """Turn arrivals at pace one into arrivals at a pace that changes from spell to spell.

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


def _fixed(rng: np.random.Generator, count: int, shape: float) -> Floats:
    return np.ones(count)


def _exponential(rng: np.random.Generator, count: int, shape: float) -> Floats:
    return rng.exponential(size=count)


def _lognormal(rng: np.random.Generator, count: int, shape: float) -> Floats:
    return rng.lognormal(-0.5 * LOGNORMAL_SIGMA**2, LOGNORMAL_SIGMA, size=count)


def _pareto(rng: np.random.Generator, count: int, shape: float) -> Floats:
    if not shape > 1:
        raise InputError(f"pareto_shape must be > 1 for a finite mean, got {shape:g}")
    return (rng.pareto(shape, size=count) + 1.0) * ((shape - 1.0) / shape)


SIZES: Mapping[str, Callable[[np.random.Generator, int, float], Floats]] = {
    "exponential": _exponential,
    "fixed": _fixed,
    "lognormal": _lognormal,
    "pareto": _pareto,
}
"""How sizes may be spread, all with mean one."""


def _classes(rng: np.random.Generator, rates: Floats, count: int) -> Ints:
    bounds = np.cumsum(rates)[:-1] / rates.sum()
    return np.searchsorted(bounds, rng.random(count), side="right").astype(np.int64)


def _known(what: str, name: str, known: Mapping[str, object]) -> str:
    if name not in known:
        raise UnknownNameError(what, name, known)
    return name
