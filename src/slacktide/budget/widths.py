"""How wide each class of jobs should be, so that jobs are done soonest on an average budget.

Over all online policies the optimum is a fixed width for each class (and phase): every job starts at
once on its width and keeps it; no job queues, and sizes need not be known. What remains is

    minimise the jobs present, sum of arrivals x hours, subject to sum of arrivals x GPU-hours <= budget,

which a price of GPUs separates into one small problem for each class (`choices`); `search` finds the
price. At a price where a class is indifferent between two ways, a mix of the two meets the budget exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from slacktide.budget.classes import JobClass
from slacktide.budget.fleet_plan import FleetPlan
from slacktide.budget.solution.continuous import choices_of, real_choices_of
from slacktide.budget.solution.mixed_widths import checked_budget, optimum


def optimal_widths(classes: Sequence[JobClass], budget_gpus: float, integer: bool = True) -> FleetPlan:
    """Return the widths that minimise the mean response time on an average number of GPUs.

    `integer` allows the classes' own widths only; else any real width from their least to their greatest.
    The budget is met exactly, by mixing two ways of at most one class, unless all classes are at their
    fastest for less. Raises InfeasibleError, naming the least feasible budget, where it is too small.
    """
    return WidthsOf(classes, integer).optimal_widths(budget_gpus)


def least_budget_gpus(classes: Sequence[JobClass]) -> float:
    """Return the least average number of GPUs on which all work gets done."""
    return WidthsOf(classes).least_budget_gpus


class WidthsOf:
    """What can be chosen for some classes, tabulated once for many questions."""

    def __init__(self, classes: Sequence[JobClass], integer: bool = True) -> None:
        self._classes, self._integer = classes, integer
        self._choices = choices_of(classes) if integer else real_choices_of(classes)

    @cached_property
    def least_budget_gpus(self) -> float:
        """The least average number of GPUs on which all work gets done."""
        return self._choices.cheapest(0.0, 1.0).gpus

    def optimal_widths(self, budget_gpus: float) -> FleetPlan:
        """Return the optimum on a budget, as the function of this name does."""
        budget_gpus = checked_budget(budget_gpus, self.least_budget_gpus)
        return optimum(self._classes, self._choices, budget_gpus, self._integer)
