"""What may be asked of the budget's solver, and how it says no."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal

from slacktide.budget.classes import JobClass
from slacktide.budget.solution.curves import TIE_SHARE
from slacktide.core.errors import InfeasibleError, InputError, shown


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
    """Write a number with six digits, never below what it is: who types it in gets what it promises."""
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
