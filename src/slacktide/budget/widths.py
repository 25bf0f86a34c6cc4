"""How wide each class of jobs should be to minimise mean response time on an average budget.

Over all online policies the optimum is a fixed width for each class (and phase): every job starts at
once on its width and keeps it; no job queues, and sizes need not be known. It remains to

    minimise the jobs present, sum of arrivals x hours, subject to sum of arrivals x GPU-hours <= budget,

which a price of GPUs separates into one small problem for each class; `width_options` finds the price. At a
price where a class is indifferent between two ways, a mix of the two meets the budget exactly: the budget
ends on an edge of the frontier, and at most one item is mixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.real_widths import real_choices_of
from slacktide.budget.whole_widths import choices_of
from slacktide.budget.width_options import (
    TIE_SHARE,
    Items,
    Total,
    WidthChoice,
    WidthOptions,
    find_edge,
    polished,
)
from slacktide.core.arrays import Floats
from slacktide.core.errors import InfeasibleError, InputError


class WidthShare(NamedTuple):
    """A width, and the share of a class's jobs that have it."""

    gpus: float
    share: float


class PathShare(NamedTuple):
    """One way through the phases of a class, and the share of its jobs that take it."""

    widths: tuple[float, ...]  # one width for each phase
    share: float
    response_hours: float  # from arrival to end, restarts included
    gpu_hours: float  # GPU-hours rented for one job


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """How one class is run."""

    name: str
    paths: tuple[PathShare, ...]
    """One path, or two if this is the class that is mixed; narrow before wide."""
    response_hours: float  # mean over the class's jobs
    average_gpus: float  # GPUs rented for this class, on average over time

    @property
    def phases(self) -> tuple[tuple[WidthShare, ...], ...]:
        """The widths of each phase with their shares, narrow before wide."""
        found = []
        for phase in range(len(self.paths[0].widths)):
            shares: dict[float, float] = {}
            for path in self.paths:
                shares[path.widths[phase]] = shares.get(path.widths[phase], 0.0) + path.share
            found.append(tuple(WidthShare(gpus, share) for gpus, share in sorted(shares.items())))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The optimum for a stream of jobs on an average budget."""

    budget_gpus: float
    shadow_price_hours_per_gpu: float
    """Hours of mean response that one more GPU on average would save: the slope of the frontier."""
    mean_response_hours: float
    average_gpus: float
    """GPUs rented on average over time; under the budget only where more would buy nothing."""
    classes: tuple[ClassPlan, ...]
    job_classes: tuple[JobClass, ...]  # the classes as they were given, in the same order


def optimum(
    classes: Sequence[JobClass], choices: WidthOptions, budget_gpus: float, integer: bool
) -> FleetPlan:
    """Return the best choice on a budget that was checked; without `integer` widths may be real."""

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
    """Return a budget as a float; raises InputError if impossible, InfeasibleError below the least."""
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
    """A choice for each item, and for one of them another choice, which a share of its jobs takes."""

    choice: WidthChoice
    item: int = -1  # the item that is mixed; -1 if none is
    share: float = 0.0
    wide_hours: float = 0.0
    wide_gpu_hours: float = 0.0
    wide_widths: tuple[float, ...] = ()


def between(items: Items, low: WidthChoice, high: WidthChoice, budget_gpus: float) -> Mix:
    """Change from one choice to another, item by item, until the budget is used up.

    Both are best at the same price, so any order is; the item at which the budget ends is mixed.
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
    """Make a plan; `price` is how many fewer jobs are present with one more GPU."""
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
    """The choices of some classes, tabulated once for many budgets."""

    def __init__(self, classes: Sequence[JobClass], integer: bool = True) -> None:
        self._classes, self._integer = classes, integer
        self._choices = choices_of(classes) if integer else real_choices_of(classes)

    @cached_property
    def least_budget_gpus(self) -> float:
        return self._choices.cheapest(0.0, 1.0).gpus

    def optimal_widths(self, budget_gpus: float) -> FleetPlan:
        budget_gpus = checked_budget(budget_gpus, self.least_budget_gpus)
        return optimum(self._classes, self._choices, budget_gpus, self._integer)
