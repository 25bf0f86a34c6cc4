"""How wide each class of jobs should be, so that jobs are done soonest on an average budget.

Over all online policies the optimum is a fixed width for each class (and phase): every job starts at
once on its width and keeps it; nobody queues, and sizes need not be known. What remains is

    minimise the jobs present, sum of arrivals x hours, subject to sum of arrivals x GPU-hours <= budget,

which a price of GPUs separates into one small problem for each class (`choices`); `search` finds the
price. At a price where a class is indifferent between two ways, a mix of the two meets the budget exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from slacktide.budget.assemble import assemble, between
from slacktide.budget.choices import Choices, Part, Total, is_bound, items_of
from slacktide.budget.classes import JobClass
from slacktide.budget.continuous import purified, real_choices_of
from slacktide.budget.curves import TIE_SHARE, Entry, rows_of, width_array
from slacktide.budget.hulls import Hulls
from slacktide.budget.paths import Paths
from slacktide.budget.result import FleetPlan
from slacktide.budget.search import find_edge, polished
from slacktide.errors import InfeasibleError, InputError
from slacktide.market.base import Ints


def optimal_widths(classes: Sequence[JobClass], budget_gpus: float, integer: bool = True) -> FleetPlan:
    """Return the widths that minimise the mean response time on an average number of GPUs.

    `integer` allows the classes' own widths only; else any real width from their least to their greatest.
    The budget is met exactly, by mixing two ways of at most one class, unless all classes are at their
    fastest for less. Raises InfeasibleError, naming the least feasible budget, where it is too small.
    """
    check_classes(classes)
    budget_gpus = checked_budget(budget_gpus)
    choices = choices_of(classes) if integer else real_choices_of(classes)
    check_feasible(choices, budget_gpus)

    def is_low(total: Total) -> bool:
        return total.gpus <= budget_gpus * (1.0 + TIE_SHARE)

    edge = find_edge(choices, is_low)
    if not integer:
        edge = polished(choices, edge, is_low)
    mix = between(choices.items, edge.low.choice, edge.high.choice, budget_gpus)
    if not integer:
        mix = purified(classes, choices.items, mix)
    return assemble(classes, choices.items, mix, budget_gpus, edge.price)


def least_budget_gpus(classes: Sequence[JobClass]) -> float:
    """Return the least average number of GPUs on which all work gets done."""
    check_classes(classes)
    return choices_of(classes).cheapest(0.0, 1.0).gpus


def choices_of(classes: Sequence[JobClass]) -> Choices:
    """Tabulate what can be chosen among the allowed widths."""
    items = items_of(classes)
    bound = np.array([is_bound(job_class) for job_class in classes])[items.class_of]
    parts: list[tuple[Ints, Part]] = []
    if not bound.all():
        free = [job_class for job_class in classes if not is_bound(job_class)]
        parts.append((np.flatnonzero(~bound), Hulls.of(rows_of(entries_of(free)))))
    if bound.any():
        parts.append((np.flatnonzero(bound), paths_of([each for each in classes if is_bound(each)])))
    return Choices(items, tuple(parts))


def entries_of(classes: Sequence[JobClass]) -> list[Entry]:
    """List all phases of classes at their allowed widths."""
    return [
        Entry(job_class.name, phase, width_array(job_class.widths))
        for job_class in classes
        for phase in job_class.phases
    ]


def paths_of(classes: Sequence[JobClass]) -> Paths:
    """Tabulate classes whose phases hang together."""
    phases = [len(job_class.phases) for job_class in classes]
    return Paths.of(rows_of(entries_of(classes)), phases, [each.restart_hours for each in classes])


def check_classes(classes: Sequence[JobClass]) -> None:
    """Raise InputError where there are no classes or two of one name."""
    if not classes:
        raise InputError("classes must name at least one class of jobs, got none")
    seen = set()
    for job_class in classes:
        if job_class.name in seen:
            raise InputError(f"each class must have a name of its own, got {job_class.name!r} twice")
        seen.add(job_class.name)


def checked_budget(budget_gpus: float) -> float:
    """Return a budget as a float. Raises InputError where it is not an amount."""
    if not (math.isfinite(budget_gpus) and budget_gpus >= 0):
        raise InputError(f"budget_gpus must be a finite number >= 0, got {budget_gpus:g}")
    return float(budget_gpus)


def check_feasible(choices: Choices, budget_gpus: float) -> None:
    """Raise InfeasibleError where not even the fewest GPU-hours fit into a budget."""
    least = choices.cheapest(0.0, 1.0).gpus
    if least > budget_gpus * (1.0 + TIE_SHARE):
        raise InfeasibleError(
            f"budget_gpus must be >= {rounded_up(least)}, the least on which the work that arrives gets "
            f"done, got {budget_gpus:g}; raise the budget, or allow narrower widths"
        )


def rounded_up(value: float) -> str:
    """Write a number with six digits, never below what it is: who types it in gets what it promises."""
    # Half the tolerance of the comparison, so that 1.4000000000000001 is 1.4 and not 1.40001.
    nearly = Decimal(value * (1.0 - TIE_SHARE / 2.0))
    return f"{Context(prec=6, rounding=ROUND_CEILING).plus(nearly).normalize():f}"
