"""How wide each class of jobs should be, so that jobs are done soonest on an average budget.

Over all online policies the optimum is a fixed width for each class (and phase): every job starts at
once on its width and keeps it; no job queues, and sizes need not be known. What remains is

    minimise the jobs present, sum of arrivals x hours, subject to sum of arrivals x GPU-hours <= budget,

which a price of GPUs separates into one small problem for each class (`choices`); `search` finds the
price. At a price where a class is indifferent between two ways, a mix of the two meets the budget exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property

from slacktide.budget.classes import JobClass
from slacktide.budget.fleet_plan import FleetPlan
from slacktide.budget.solution.continuous import choices_of, real_choices_of
from slacktide.budget.solution.curves import TIE_SHARE
from slacktide.budget.solution.mixed_widths import assemble, between, purified
from slacktide.budget.solution.search import find_edge, polished
from slacktide.budget.solution.width_options import Total
from slacktide.core.errors import InfeasibleError, InputError, shown


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
        check_classes(classes)
        self._classes, self._integer = classes, integer
        self._choices = choices_of(classes) if integer else real_choices_of(classes)

    @cached_property
    def least_budget_gpus(self) -> float:
        """The least average number of GPUs on which all work gets done."""
        return self._choices.cheapest(0.0, 1.0).gpus

    def optimal_widths(self, budget_gpus: float) -> FleetPlan:
        """Return the optimum on a budget, as the function of this name does."""
        classes, choices = self._classes, self._choices
        budget_gpus = checked_budget(budget_gpus)
        check_feasible(self.least_budget_gpus, budget_gpus)

        def is_low(total: Total) -> bool:
            return total.gpus <= budget_gpus * (1.0 + TIE_SHARE)

        edge = find_edge(choices, is_low)
        if not self._integer:
            edge = polished(choices, edge, is_low)
        mix = between(choices.items, edge.low.choice, edge.high.choice, budget_gpus)
        if not self._integer:
            mix = purified(classes, choices.items, mix)
        return assemble(classes, choices.items, mix, budget_gpus, edge.price)


def check_classes(classes: Sequence[JobClass]) -> None:
    """Raise InputError where there are no classes or two of one name."""
    if not classes:
        raise InputError("classes must name at least one class of jobs, got none")
    seen = set()
    for job_class in classes:
        if job_class.name in seen:
            raise InputError(f"each class must have a name of its own, got {shown(job_class.name)} twice")
        seen.add(job_class.name)


def checked_budget(budget_gpus: float) -> float:
    """Return a budget as a float. Raises InputError where it is not an amount."""
    if not (math.isfinite(budget_gpus) and budget_gpus >= 0):
        raise InputError(f"budget_gpus must be a finite number >= 0, got {budget_gpus:g}")
    return float(budget_gpus)


def check_feasible(least: float, budget_gpus: float) -> None:
    """Raise InfeasibleError where a budget is below the least feasible one."""
    if least > budget_gpus * (1.0 + TIE_SHARE):
        raise InfeasibleError(
            f"budget_gpus must be >= {rounded_up(least)}, the minimum to get through the work that "
            f"arrives, got {budget_gpus:g}; raise the budget, or allow narrower widths"
        )


def rounded_up(value: float) -> str:
    """Write a number with six digits, never below what it is, so that it can be typed in as printed."""
    # Half the tolerance of the comparison, so that 1.4000000000000001 is 1.4 and not 1.40001.
    nearly = Decimal(value * (1.0 - TIE_SHARE / 2.0))
    return f"{Context(prec=6, rounding=ROUND_CEILING).plus(nearly).normalize():f}"


def checked_response(mean_response_hours: float, fastest: float) -> float:
    """Return a mean response time that can be had, as a float."""
    if not (math.isfinite(mean_response_hours) and mean_response_hours > 0):
        raise InputError(f"mean_response_hours must be a finite number > 0, got {mean_response_hours:g}")
    if mean_response_hours < fastest * (1.0 - TIE_SHARE):
        raise InfeasibleError(
            f"mean_response_hours must be >= {rounded_up(fastest)}, the fastest on any budget, "
            f"got {mean_response_hours:g}; allow more time, or wider widths"
        )
    return float(mean_response_hours)
