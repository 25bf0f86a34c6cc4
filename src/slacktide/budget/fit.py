"""Fit the known forms of a speedup to measured points, and say where the points are not concave.

Fits are least squares in relative error: a rate that is 5 % off counts the same on one GPU as on
sixty-four. Points wider than the fastest are left out of them, because no form can fall and such a
width is never worth renting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table

GRID = 64  # parameters tried in each round of a search
ROUNDS = 8  # rounds of a search; each looks between the neighbours of the best so far
LEAST_EXPONENT = 1e-6  # the smallest power that is tried: a job that does not scale at all


class Fit(NamedTuple):
    """One form of a speedup, fitted."""

    form: str
    speedup: Speedup
    error_share: float  # root of the mean squared relative error
    worst_error_share: float  # the greatest relative error, at any point
    scale: float  # what the form is multiplied with to meet the points; 1 where one GPU was measured

    def __call__(self, gpus: float) -> float:
        """Return the fitted speedup on the scale of the points."""
        return self.scale * self.speedup(gpus)


class Under(NamedTuple):
    """A measured point that lies under the hull of the others."""

    gpus: float
    speedup: float
    hull_speedup: float

    @property
    def share(self) -> float:
        """How far it lies under the hull, relative to it."""
        return 1 - self.speedup / self.hull_speedup


@dataclass(frozen=True, slots=True)
class Fitted:
    """What measured points say about how a job scales."""

    points: tuple[tuple[float, float], ...]
    """Width and speedup, by width; counted so that the narrowest width scales perfectly."""
    fits: tuple[Fit, ...]  # the forms that fit at all, the closest first
    table: Table  # the corners of the points' upper concave hull
    under: tuple[Under, ...]  # the points that the hull replaces

    @property
    def narrowest_gpus(self) -> float:
        return self.points[0][0]

    @property
    def fastest_gpus(self) -> float:
        """The width of the greatest speedup; wider ones are slower."""
        return _fastest(self.points)

    @property
    def table_error_share(self) -> float:
        """Root of the mean squared relative distance of the points from their hull."""
        return float(np.sqrt(np.mean([(self.table(gpus) / rate - 1) ** 2 for gpus, rate in self.points])))


def fit_speedups(points: Sequence[tuple[float, float]]) -> Fitted:
    """Fit every form to measured widths and rates, which may be in any unit.

    Raises InputError with fewer than two widths, or for an impossible width or rate.
    """
    measured = normalised(points)
    if len(measured) < 2:
        raise InputError("at least two widths must be measured to fit a speedup, got one")
    rising = [point for point in measured if point[0] <= _fastest(measured)]
    gpus, rates = (np.array(column) for column in zip(*rising, strict=True))
    found = (
        _searched(Amdahl, 0.0, gpus, rates),
        _searched(Power, LEAST_EXPONENT, gpus, rates),
        _line(gpus, rates),
    )
    fits = sorted((fit for fit in found if fit is not None), key=lambda fit: fit.error_share)
    table = Table(Table(measured).hull()[1:])
    return Fitted(measured, tuple(fits), table, under_hull(Table(measured)))


def _fastest(points: tuple[tuple[float, float], ...]) -> float:
    return max(points, key=lambda point: point[1])[0]


def normalised(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return rates as speedups, by width, counted so that the narrowest width scales perfectly."""
    by_width = Table(tuple(points)).points
    narrowest, slowest = by_width[0]
    return tuple((gpus, rate / slowest * narrowest) for gpus, rate in by_width)


def under_hull(table: Table, least_share: float = 1e-9) -> tuple[Under, ...]:
    """Return the points of a table that its concave hull replaces, by width."""
    found = (Under(gpus, rate, table(gpus)) for gpus, rate in table.points)
    return tuple(point for point in found if point.share > least_share)


def _searched(form: Callable[[float], Speedup], low: float, gpus: Floats, rates: Floats) -> Fit:
    """Search the one parameter of a form, from `low` to 1, in ever finer grids."""
    high = 1.0
    for _ in range(ROUNDS):
        tried = np.linspace(low, high, GRID)
        errors = [_fit(form(float(value)), gpus, rates).error_share for value in tried]
        best = int(np.argmin(errors))
        low, high = float(tried[max(best - 1, 0)]), float(tried[min(best + 1, GRID - 1)])
    return _fit(form(float(tried[best])), gpus, rates)


def _line(gpus: Floats, rates: Floats) -> Fit | None:
    """Fit a straight line; None if there is none, or the best one falls or is not above 0 at one GPU."""
    if len(gpus) < 2:
        return None
    columns = np.column_stack((gpus, np.ones_like(gpus))) / rates[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(columns, np.ones_like(gpus), rcond=None)
    if not (alpha > 0 and alpha + beta > 0):
        return None
    # Where one GPU was not measured the line's own value there is the unit.
    unit = 1.0 if gpus[0] == 1 else float(alpha + beta)
    return _fit(Linear(float(alpha) / unit, float(beta) / unit), gpus, rates)


def _fit(speedup: Speedup, gpus: Floats, rates: Floats) -> Fit:
    """Measure a speedup against the points, scaled to them where one GPU was not measured."""
    ratios = np.array([speedup(width) for width in gpus.tolist()]) / rates
    scale = 1.0 if gpus[0] == 1 else float(ratios.sum() / (ratios @ ratios))
    errors = scale * ratios - 1
    form = type(speedup).__name__.lower()
    return Fit(form, speedup, float(np.sqrt(np.mean(errors**2))), float(np.abs(errors).max()), scale)
