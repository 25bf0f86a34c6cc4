"""Mean response time against budget, for all budgets at once: what each GPU more would buy.

The frontier is convex and falls, from the least budget on which the work gets done to where all classes
are at their fastest. Among whole widths it is made of straight edges, and all its corners are found;
among real widths it is sampled at prices in equal ratios, and a budget between samples is solved anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.fleet_plan import FleetPlan
from slacktide.budget.solution.curves import TIE_SHARE
from slacktide.budget.solution.mixed_widths import assemble, between, whole
from slacktide.budget.solution.samples import FrontierSamples
from slacktide.budget.solution.width_steps import WidthSteps
from slacktide.budget.widths import (
    check_classes,
    check_feasible,
    checked_budget,
    checked_response,
    optimal_widths,
)
from slacktide.core.arrays import Floats


class Corner(NamedTuple):
    """A point of the frontier at which no class is mixed."""

    budget_gpus: float
    mean_response_hours: float
    shadow_price_hours_per_gpu: float
    """What the next GPU buys: the slope to the right; 0 at the last corner."""
    widths: tuple[tuple[float, ...], ...]
    """By class and phase."""


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The frontier of some classes; arrays are by corner, from the least budget to the greatest useful."""

    job_classes: tuple[JobClass, ...]
    budget_gpus: Floats
    mean_response_hours: Floats
    shadow_price_hours_per_gpu: Floats
    """Hours of mean response that the next GPU saves; never rises, and ends at 0."""
    source: WidthSteps | FrontierSamples

    def __len__(self) -> int:
        """Return the number of corners."""
        return len(self.budget_gpus)

    def corner(self, index: int) -> Corner:
        """Return one corner with the widths of every class."""
        index = range(len(self))[index]
        widths, found, at = whole(self.source.choice(index).widths), [], 0
        for job_class in self.job_classes:
            found.append(tuple(widths[at : at + len(job_class.phases)]))
            at += len(job_class.phases)
        return Corner(
            float(self.budget_gpus[index]),
            float(self.mean_response_hours[index]),
            float(self.shadow_price_hours_per_gpu[index]),
            tuple(found),
        )

    def plan_at(self, budget_gpus: float) -> FleetPlan:
        """Return the optimum for a budget. Raises InfeasibleError where it is too small."""
        budget_gpus = checked_budget(budget_gpus)
        check_feasible(float(self.budget_gpus[0]), budget_gpus)
        if isinstance(self.source, FrontierSamples):
            return optimal_widths(self.job_classes, budget_gpus, integer=False)
        corner = int(np.searchsorted(self.budget_gpus, budget_gpus * (1.0 + TIE_SHARE), side="right")) - 1
        low = self.source.choice(corner)
        high = self.source.choice(corner + 1) if corner + 1 < len(self) else low
        mix = between(self.source.items, low, high, budget_gpus)
        price = float(self.source.price[corner]) if corner + 1 < len(self) else 0.0
        return assemble(self.job_classes, self.source.items, mix, budget_gpus, price)

    def cheapest_budget_for(self, mean_response_hours: float) -> float:
        """Return the least budget with a mean response time. Raises InfeasibleError below the fastest."""
        means = self.mean_response_hours
        target = checked_response(mean_response_hours, float(means[-1]))
        if target >= means[0]:
            return float(self.budget_gpus[0])
        if isinstance(self.source, FrontierSamples):
            return self.source.budget_for(target * _arrivals(self.job_classes))
        return float(np.interp(-target, -means, self.budget_gpus))


def _arrivals(classes: Sequence[JobClass]) -> float:
    return math.fsum(job_class.arrivals_per_hour for job_class in classes)


def frontier(classes: Sequence[JobClass], integer: bool = True) -> Frontier:
    """Find the frontier of classes, among their own widths or among all real ones between."""
    check_classes(classes)
    source: WidthSteps | FrontierSamples
    if integer:
        source = WidthSteps.of(classes)
        first, rate = source.choice(0), source.items.arrivals_per_hour
        gpus = math.fsum(rate * first.gpu_hours) + np.concatenate(([0.0], np.cumsum(source.gpus)))
        jobs = math.fsum(rate * first.hours) - np.concatenate(([0.0], np.cumsum(source.jobs)))
        price = np.concatenate((source.price, [0.0]))
    else:
        source = FrontierSamples.of(classes)
        gpus = np.array([total.gpus for total in source.totals])
        jobs = np.array([total.jobs for total in source.totals])
        price = source.price
    arrivals = _arrivals(classes)
    return Frontier(tuple(classes), gpus, jobs / arrivals, price / arrivals, source)
