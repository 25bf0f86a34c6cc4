"""The optimum on a budget: an edge of the frontier as a plan that people read; at most one item is mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.fleet_plan import ClassPlan, FleetPlan, PathShare
from slacktide.budget.solution.curves import TIE_SHARE, WidthChoice
from slacktide.budget.solution.width_options import Items, Total, WidthOptions, find_edge, polished
from slacktide.core.arrays import Floats
from slacktide.core.errors import InfeasibleError, InputError


def optimum(
    classes: Sequence[JobClass], choices: WidthOptions, budget_gpus: float, integer: bool
) -> FleetPlan:
    """Return the best of some choices on a budget that was checked; without `integer` widths may be real."""

    def is_low(total: Total) -> bool:
        return total.gpus <= budget_gpus * (1.0 + TIE_SHARE)

    edge = find_edge(choices, is_low)
    if not integer:
        edge = polished(choices, edge, is_low)
    mix = between(choices.items, edge.low.choice, edge.high.choice, budget_gpus)
    if not integer:
        mix = purified(classes, choices.items, mix)
    return assemble(classes, choices.items, mix, budget_gpus, edge.price)


def checked_budget(budget_gpus: float, least_gpus: float) -> float:
    """Return a budget as a float; raises InputError for no amount, InfeasibleError below the least."""
    if not (math.isfinite(budget_gpus) and budget_gpus >= 0):
        raise InputError(f"budget_gpus must be a finite number >= 0, got {budget_gpus:g}")
    if least_gpus > budget_gpus * (1.0 + TIE_SHARE):
        raise InfeasibleError(
            f"budget_gpus must be >= {rounded_up(least_gpus)}, the minimum to get through the work that "
            f"arrives, got {budget_gpus:g}; raise the budget, or allow narrower widths"
        )
    return float(budget_gpus)


def rounded_up(value: float) -> str:
    """Write a number with six digits, never below what it is, so that it can be typed in as printed."""
    # Half the tolerance of the comparison, so that 1.4000000000000001 is 1.4 and not 1.40001.
    nearly = Decimal(value * (1.0 - TIE_SHARE / 2.0))
    return f"{Context(prec=6, rounding=ROUND_CEILING).plus(nearly).normalize():f}"


class Mix(NamedTuple):
    """A choice for each item, and another for one of them that a share of its jobs takes."""

    choice: WidthChoice
    item: int = -1  # the item that is mixed; -1 if none is
    share: float = 0.0
    wide_hours: float = 0.0
    wide_gpu_hours: float = 0.0
    wide_widths: tuple[float, ...] = ()


def between(items: Items, low: WidthChoice, high: WidthChoice, budget_gpus: float) -> Mix:
    """Go over from one choice to another item by item until the budget is used up.

    Both are best at one price, so any order is; the item at which the budget ends is mixed.
    """
    rate, first = items.arrivals_per_hour, items.first_phase
    room = budget_gpus - math.fsum(rate * low.gpu_hours)
    steps = rate * np.maximum(0.0, high.gpu_hours - low.gpu_hours)
    reach = np.cumsum(steps)
    taken = reach <= room + TIE_SHARE * budget_gpus
    phases = np.repeat(taken, np.diff(first))
    choice = WidthChoice(
        np.where(taken, high.gpu_hours, low.gpu_hours),
        np.where(taken, high.hours, low.hours),
        np.where(phases, high.widths, low.widths),
    )
    item = int(np.count_nonzero(taken))
    rest = budget_gpus - math.fsum(rate * choice.gpu_hours)
    if item == len(taken) or rest <= TIE_SHARE * budget_gpus:
        return Mix(choice)
    widths = tuple(high.widths[first[item] : first[item + 1]].tolist())
    return Mix(
        choice, item, rest / float(steps[item]), float(high.hours[item]), float(high.gpu_hours[item]), widths
    )


def purified(classes: Sequence[JobClass], items: Items, mix: Mix) -> Mix:
    """Replace a mix of two real widths by the one between them that takes as many GPU-hours and hours.

    Where a speedup is concave there is one that is at least as good; elsewhere the mix stays.
    """
    if mix.item < 0 or len(mix.wide_widths) > 1:
        return mix
    item, at = mix.item, int(items.first_phase[mix.item])
    narrow_hours, narrow_gpu_hours = mix.choice.hours[item], mix.choice.gpu_hours[item]
    hours = narrow_hours + mix.share * (mix.wide_hours - narrow_hours)
    width = (narrow_gpu_hours + mix.share * (mix.wide_gpu_hours - narrow_gpu_hours)) / hours
    phase = [phase for job_class in classes for phase in job_class.phases][at]
    start = classes[items.class_of[item]].restart_hours
    alone = start + phase.work_gpu_hours / float(phase.speedup(float(width)))
    if not alone <= hours * (1.0 + TIE_SHARE):
        return mix
    found = WidthChoice(*(values.copy() for values in mix.choice))
    found.hours[item], found.gpu_hours[item], found.widths[at] = alone, width * alone, width
    return Mix(found)


def assemble(
    classes: Sequence[JobClass], items: Items, mix: Mix, budget_gpus: float, price: float
) -> FleetPlan:
    """Write a plan; `price` is the jobs that one more GPU makes fewer."""
    hours = np.add.reduceat(mix.choice.hours, items.first_item).tolist()
    gpu_hours = np.add.reduceat(mix.choice.gpu_hours, items.first_item).tolist()
    widths = whole(mix.choice.widths)
    mixed = int(items.class_of[mix.item]) if mix.item >= 0 else -1
    plans, at = [], 0
    for index, job_class in enumerate(classes):
        end = at + len(job_class.phases)
        path = PathShare(tuple(widths[at:end]), 1.0, hours[index], gpu_hours[index])
        paths = (path,) if index != mixed else _two(items, mix, path, at)
        plans.append(_class_plan(job_class, paths))
        at = end
    total = math.fsum(job_class.arrivals_per_hour for job_class in classes)
    jobs = math.fsum(
        plan.response_hours * each.arrivals_per_hour for plan, each in zip(plans, classes, strict=True)
    )
    gpus = min(math.fsum(plan.average_gpus for plan in plans), budget_gpus)
    return FleetPlan(budget_gpus, price / total, jobs / total, gpus, tuple(plans), tuple(classes))


def _class_plan(job_class: JobClass, paths: tuple[PathShare, ...]) -> ClassPlan:
    hours = math.fsum(path.share * path.response_hours for path in paths)
    gpu_hours = math.fsum(path.share * path.gpu_hours for path in paths)
    return ClassPlan(job_class.name, paths, hours, job_class.arrivals_per_hour * gpu_hours)


def _two(items: Items, mix: Mix, narrow: PathShare, first_phase: int) -> tuple[PathShare, PathShare]:
    """Return the narrow path and the wide one, which differ in the mixed item only."""
    at = int(items.first_phase[mix.item]) - first_phase
    after = at + len(mix.wide_widths)
    wide = PathShare(
        (*narrow.widths[:at], *whole(np.array(mix.wide_widths)), *narrow.widths[after:]),
        mix.share,
        narrow.response_hours + mix.wide_hours - float(mix.choice.hours[mix.item]),
        narrow.gpu_hours + mix.wide_gpu_hours - float(mix.choice.gpu_hours[mix.item]),
    )
    return narrow._replace(share=1.0 - mix.share), wide


def whole(widths: Floats) -> list[float]:
    """Return widths as whole numbers where all are."""
    rounded = widths.astype(np.int64)
    found: list[float] = (rounded if np.array_equal(rounded, widths) else widths).tolist()
    return found
