"""One width for all classes: what most teams do, and what the optimum is measured against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.fleet_plan import WidthShare
from slacktide.budget.solution.curves import TIE_SHARE, speedups_at
from slacktide.core.arrays import Floats
from slacktide.core.speedup import concave_hull

REAL_WIDTHS = 2_000
"""How many real widths are tried where widths need not be whole."""


class BestOneWidth(NamedTuple):
    """The best that one width for all can do on a budget."""

    widths: tuple[WidthShare, ...]
    """One width, or two that share the jobs of all classes so that the budget is used up."""
    average_gpus: float
    mean_response_hours: float


@dataclass(frozen=True, slots=True, eq=False)
class OneWidths:
    """Every single width for all classes: what it costs and what it buys."""

    widths: Floats
    average_gpus: Floats
    mean_response_hours: Floats

    def best_at(self, budget_gpus: float) -> BestOneWidth | None:
        """Return the best single width on a budget, or mix of two; None if none is cheap enough."""
        corners = self.corners()
        affordable = [one for one in corners if one.average_gpus <= budget_gpus * (1 + TIE_SHARE)]
        if not affordable or len(affordable) == len(corners):
            return affordable[-1] if affordable else None
        low, high = affordable[-1], corners[len(affordable)]
        share = max(0.0, (budget_gpus - low.average_gpus) / (high.average_gpus - low.average_gpus))
        return low if share <= TIE_SHARE else _mixed(low, high, share)

    def corners(self) -> list[BestOneWidth]:
        """Return the widths worth having, alone or mixed with a neighbour, the cheapest first."""
        found: dict[float, BestOneWidth] = {}
        points = zip(self.average_gpus, self.mean_response_hours, self.widths, strict=True)
        for gpus, hours, width in sorted((float(x), float(y), float(k)) for x, y, k in points):
            found.setdefault(gpus, BestOneWidth((WidthShare(width, 1.0),), gpus, hours))
        hull = concave_hull(tuple((one.average_gpus, -one.mean_response_hours) for one in found.values()))
        corners = [found[gpus] for gpus, _ in hull]
        fastest = min(corners, key=lambda one: one.mean_response_hours)
        return corners[: corners.index(fastest) + 1]


def _mixed(low: BestOneWidth, high: BestOneWidth, share: float) -> BestOneWidth:
    return BestOneWidth(
        (low.widths[0]._replace(share=1 - share), high.widths[0]._replace(share=share)),
        (1 - share) * low.average_gpus + share * high.average_gpus,
        (1 - share) * low.mean_response_hours + share * high.mean_response_hours,
    )


def one_widths(classes: Sequence[JobClass], integer: bool = True) -> OneWidths:
    """Try every width for all classes; one that may not have it takes the next narrower it may have.

    A class whose narrowest width is wider still takes that one.
    """
    widths = _tried(classes, integer)
    gpus, jobs = np.zeros(len(widths)), np.zeros(len(widths))
    for one in classes:
        taken = _allowed(one, widths, integer)
        hours = np.full(len(widths), one.restart_hours)
        for phase in one.phases:
            hours += phase.work_gpu_hours / speedups_at(phase.speedup, taken)
        jobs += one.arrivals_per_hour * hours
        gpus += one.arrivals_per_hour * hours * taken
    return OneWidths(widths, gpus, jobs / math.fsum(one.arrivals_per_hour for one in classes))


def _tried(classes: Sequence[JobClass], integer: bool) -> Floats:
    least, most = min(one.widths[0] for one in classes), max(one.widths[-1] for one in classes)
    if integer:
        return np.array(sorted({width for one in classes for width in one.widths}), dtype=np.float64)
    return np.geomspace(least, most, REAL_WIDTHS)


def _allowed(one: JobClass, widths: Floats, integer: bool) -> Floats:
    own = np.array(one.widths, dtype=np.float64)
    if not integer:
        return np.clip(widths, own[0], own[-1])
    found: Floats = own[np.maximum(np.searchsorted(own, widths, side="right") - 1, 0)]
    return found
