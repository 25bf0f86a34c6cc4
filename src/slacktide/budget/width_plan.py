"""A budget's whole answer: the optimum, one width for all instead, and what more or less money would buy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from slacktide.budget.fleet_plan import FleetPlan
from slacktide.budget.solution.frontier import Frontier
from slacktide.budget.solution.one_width import BestOneWidth, OneWidths, one_widths
from slacktide.core.units import HOURS_PER_MONTH

STEP_SHARE = 0.1
"""How much more or less the neighbouring budgets are."""
FRONTIER_ROWS = 12


class BudgetStep(NamedTuple):
    """Another budget and what it would buy."""

    kind: str
    """`less`, `more`, `gpu`, `usd` or `fastest`."""
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
        """The least on which the work that arrives gets done."""
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
        here = self.plan.budget_gpus
        budgets = {"less": here * (1 - STEP_SHARE), "fastest": self.useful_budget_gpus}
        if not self.saturated:
            budgets |= {"more": here * (1 + STEP_SHARE), "gpu": here + 1}
            if self.usd_per_gpu_hour is not None:
                budgets["usd"] = here + 1 / self.usd_per_gpu_hour
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
    """Round to three digits: a budget that people can say."""
    return float(f"{gpus:.3g}")


def answer(
    frontier: Frontier, budget_gpus: float, *, usd_per_gpu_hour: float | None = None, integer: bool = True
) -> WidthPlan:
    """Answer a budget on a frontier. Raises InfeasibleError where it is too small."""
    singles = one_widths(frontier.job_classes, integer)
    return WidthPlan(frontier.plan_at(budget_gpus), frontier, singles, usd_per_gpu_hour)
