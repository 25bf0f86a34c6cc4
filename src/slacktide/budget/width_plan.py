"""What a budget buys: the optimum, the best single width in comparison, and what other budgets would buy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass, speedups_at
from slacktide.budget.frontier import Frontier
from slacktide.budget.width_options import TIE_SHARE
from slacktide.budget.widths import FleetPlan, WidthShare
from slacktide.core.arrays import Floats
from slacktide.core.speedup import concave_hull
from slacktide.core.units import HOURS_PER_MONTH

REAL_WIDTHS = 2_000  # how many real widths are tried where widths need not be whole


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
        affordable = [corner for corner in corners if corner.average_gpus <= budget_gpus * (1 + TIE_SHARE)]
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
        hull = concave_hull(
            tuple((point.average_gpus, -point.mean_response_hours) for point in found.values())
        )
        corners = [found[gpus] for gpus, _ in hull]
        fastest = min(corners, key=lambda corner: corner.mean_response_hours)
        return corners[: corners.index(fastest) + 1]


def _mixed(low: BestOneWidth, high: BestOneWidth, share: float) -> BestOneWidth:
    return BestOneWidth(
        (low.widths[0]._replace(share=1 - share), high.widths[0]._replace(share=share)),
        (1 - share) * low.average_gpus + share * high.average_gpus,
        (1 - share) * low.mean_response_hours + share * high.mean_response_hours,
    )


def one_widths(classes: Sequence[JobClass], integer: bool = True) -> OneWidths:
    """Try every width for all classes; a class that may not have it takes its next narrower width.

    A class whose narrowest width is wider takes that one.
    """
    widths = _tried(classes, integer)
    gpus, jobs = np.zeros(len(widths)), np.zeros(len(widths))
    for job_class in classes:
        taken = _allowed(job_class, widths, integer)
        hours = np.full(len(widths), job_class.restart_hours)
        for phase in job_class.phases:
            hours += phase.work_gpu_hours / speedups_at(phase.speedup, taken)
        jobs += job_class.arrivals_per_hour * hours
        gpus += job_class.arrivals_per_hour * hours * taken
    return OneWidths(widths, gpus, jobs / math.fsum(job_class.arrivals_per_hour for job_class in classes))


def _tried(classes: Sequence[JobClass], integer: bool) -> Floats:
    least, most = (
        min(job_class.widths[0] for job_class in classes),
        max(job_class.widths[-1] for job_class in classes),
    )
    if integer:
        return np.array(
            sorted({width for job_class in classes for width in job_class.widths}), dtype=np.float64
        )
    return np.geomspace(least, most, REAL_WIDTHS)


def _allowed(job_class: JobClass, widths: Floats, integer: bool) -> Floats:
    own = np.array(job_class.widths, dtype=np.float64)
    if not integer:
        return np.clip(widths, own[0], own[-1])
    found: Floats = own[np.maximum(np.searchsorted(own, widths, side="right") - 1, 0)]
    return found


STEP_SHARE = 0.1  # how much more or less the neighbouring budgets are
FRONTIER_ROWS = 12


class BudgetStep(NamedTuple):
    """Another budget and what it would buy."""

    kind: str  # `less`, `more`, `gpu`, `usd` or `fastest`
    budget_gpus: float
    mean_response_hours: float
    saved_hours: float
    """Mean hours that each job is done sooner than on the budget itself; negative when it is later."""


@dataclass(frozen=True, slots=True, eq=False)
class WidthPlan:
    """What a budget buys for a stream of jobs, and what is near it."""

    plan: FleetPlan
    frontier: Frontier
    one_widths: OneWidths
    usd_per_gpu_hour: float | None = None

    @property
    def least_budget_gpus(self) -> float:
        return float(self.frontier.budget_gpus[0])

    @property
    def useful_budget_gpus(self) -> float:
        """Where all classes are at their fastest: more buys nothing."""
        return float(self.frontier.budget_gpus[-1])

    @property
    def one_width(self) -> BestOneWidth | None:
        """The best single width for all classes on the same budget; None if none is cheap enough."""
        return self.one_widths.best_at(self.plan.budget_gpus)

    @property
    def saturated(self) -> bool:
        """Whether more budget would buy nothing."""
        return self.plan.budget_gpus >= self.useful_budget_gpus * (1 - 1e-9)

    def usd_per_month(self, gpus: float) -> float:
        """Return what this many GPUs cost in a month; not-a-number where no price is known."""
        return math.nan if self.usd_per_gpu_hour is None else gpus * self.usd_per_gpu_hour * HOURS_PER_MONTH

    def steps(self) -> tuple[BudgetStep, ...]:
        """Return the budgets next to this one that are feasible and useful, the smallest first."""
        budget = self.plan.budget_gpus
        budgets = {"less": budget * (1 - STEP_SHARE), "fastest": self.useful_budget_gpus}
        if not self.saturated:
            budgets |= {"more": budget * (1 + STEP_SHARE), "gpu": budget + 1}
            if self.usd_per_gpu_hour is not None:
                budgets["usd"] = budget + 1 / self.usd_per_gpu_hour
        steps = [self._step(kind, gpus) for kind, gpus in budgets.items() if gpus >= self.least_budget_gpus]
        return tuple(sorted(steps, key=lambda step: step.budget_gpus))

    def _step(self, kind: str, gpus: float) -> BudgetStep:
        response = self.frontier.plan_at(gpus).mean_response_hours
        return BudgetStep(kind, gpus, response, self.plan.mean_response_hours - response)

    def rows(self, count: int = FRONTIER_ROWS) -> tuple[FleetPlan, ...]:
        """Return plans along the frontier, from the least budget to the last useful one.

        Half of them go in equal ratios of budget, half in equal ratios of response: near the least budget a
        little money buys much time, far from it much money buys little.
        """
        least, most = self.least_budget_gpus, self.useful_budget_gpus
        hours = self.frontier.mean_response_hours
        slowest, fastest = float(hours[0]), float(hours[-1])
        half = count // 2
        places = [(step + 1) / half for step in range(half - 1)]
        wanted = [least * (most / least) ** place for place in places]
        for place in places:
            wanted.append(self.frontier.cheapest_budget_for(slowest * (fastest / slowest) ** place))
        inside = {rounded for gpus in wanted if least < (rounded := _rounded(gpus)) < most}
        return tuple(self.frontier.plan_at(gpus) for gpus in sorted({least, most, *inside}))


def _rounded(gpus: float) -> float:
    """Round to three digits: a budget that is easy to read."""
    return float(f"{gpus:.3g}")


def answer(
    frontier: Frontier, budget_gpus: float, *, usd_per_gpu_hour: float | None = None, integer: bool = True
) -> WidthPlan:
    """Return what a budget buys on a frontier. Raises InfeasibleError if it is too small."""
    singles = one_widths(frontier.job_classes, integer)
    return WidthPlan(frontier.plan_at(budget_gpus), frontier, singles, usd_per_gpu_hour)
