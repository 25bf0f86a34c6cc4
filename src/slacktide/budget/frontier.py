"""Mean response time against budget, for all budgets at once: what each further GPU would buy.

The frontier is convex and falls, from the least budget on which the work gets done to where all classes
are at their fastest. Among whole widths it is made of straight edges, and all its corners are found; among
real widths it is sampled at prices in equal ratios, and a budget between samples is solved by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.real_widths import real_choices_of
from slacktide.budget.whole_widths import Hulls, Paths, entries_of, paths_of
from slacktide.budget.width_options import (
    CHORD_TOLERANCE,
    TIE_SHARE,
    Items,
    Total,
    WidthChoice,
    WidthOptions,
    find_edge,
    is_bound,
    items_of,
    polished,
    rows_of,
)
from slacktide.budget.widths import (
    FleetPlan,
    assemble,
    between,
    checked_budget,
    optimum,
    rounded_up,
)
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InfeasibleError, InputError


class ItemHull(NamedTuple):
    """The corners of one item's hull, from the fewest GPU-hours to the fewest hours."""

    gpu_hours: Floats
    hours: Floats
    widths: Floats  # by corner and phase


@dataclass(frozen=True, slots=True, eq=False)
class WidthSteps:
    """A fractional knapsack: each step takes one item to its next corner; the best bargains come first."""

    items: Items
    hulls: tuple[ItemHull, ...]
    item: Ints  # the item of each step
    gpus: Floats  # how many more GPUs are rented on average over time, by step
    jobs: Floats  # how many fewer jobs are present on average over time, by step
    price: Floats  # how many fewer jobs are present per GPU more; never rises

    @classmethod
    def of(cls, classes: Sequence[JobClass]) -> WidthSteps:
        items, hulls = items_of(classes), hulls_of(classes)
        item = np.repeat(np.arange(len(hulls)), [len(hull.hours) - 1 for hull in hulls])
        gpu_hours = np.concatenate([np.diff(hull.gpu_hours) for hull in hulls])
        hours = np.concatenate([-np.diff(hull.hours) for hull in hulls])
        price = _falling(hours / gpu_hours, item)
        order, rate = np.argsort(-price, kind="stable"), items.arrivals_per_hour[item]
        return cls(items, hulls, item[order], (rate * gpu_hours)[order], (rate * hours)[order], price[order])

    def choice(self, steps: int) -> WidthChoice:
        taken = np.bincount(self.item[:steps], minlength=len(self.hulls)).tolist()
        pairs = list(zip(self.hulls, taken, strict=True))
        return WidthChoice(
            np.array([hull.gpu_hours[corner] for hull, corner in pairs]),
            np.array([hull.hours[corner] for hull, corner in pairs]),
            np.concatenate([hull.widths[corner] for hull, corner in pairs]),
        )


def _falling(price: Floats, item: Ints) -> Floats:
    """Keep each item's edges in order where rounding makes a later one look the better bargain."""
    same = item[1:] == item[:-1]
    while (rises := same & (price[1:] > price[:-1])).any():
        price[1:][rises] = price[:-1][rises]
    return price


def hulls_of(classes: Sequence[JobClass]) -> tuple[ItemHull, ...]:
    """Return the hull of each item, in the order of the classes and their phases."""
    free = [job_class for job_class in classes if not is_bound(job_class)]
    single = iter(_item_hulls(Hulls.of(rows_of(entries_of(free)))) if free else ())
    found: list[ItemHull] = []
    for job_class in classes:
        if is_bound(job_class):
            found.append(path_hull(paths_of([job_class])))
        else:
            found.extend(next(single) for _ in job_class.phases)
    return tuple(found)


def _item_hulls(hulls: Hulls) -> list[ItemHull]:
    widths = hulls.widths[:, None]
    return [
        ItemHull(hulls.gpu_hours[begin:end], hulls.hours[begin:end], widths[begin:end])
        for begin, end in pairwise(hulls.start.tolist())
    ]


def path_hull(paths: Paths) -> ItemHull:
    """Enumerate the hull of one class's paths: as long as a path lies below a chord, it splits it."""
    found, ahead = [paths.cheapest(0.0, 1.0)], [paths.cheapest(1.0, 0.0)]
    while ahead:
        middle = _below(paths, found[-1], ahead[-1])
        if middle is None:
            found.append(ahead.pop())
        else:
            ahead.append(middle)
    if found[0].gpu_hours[0] >= found[-1].gpu_hours[0]:
        del found[1:]
    return ItemHull(
        np.concatenate([choice.gpu_hours for choice in found]),
        np.concatenate([choice.hours for choice in found]),
        np.stack([choice.widths for choice in found]),
    )


def _below(paths: Paths, low: WidthChoice, high: WidthChoice) -> WidthChoice | None:
    """Return a path below the chord between two, if there is one."""
    more = float(high.gpu_hours[0] - low.gpu_hours[0])
    if more <= 0.0:
        return None
    price = float(low.hours[0] - high.hours[0]) / more
    middle = paths.cheapest(1.0, price)
    chord = float(low.hours[0] + price * low.gpu_hours[0])
    reached = float(middle.hours[0] + price * middle.gpu_hours[0])
    inside = low.gpu_hours[0] < middle.gpu_hours[0] < high.gpu_hours[0]
    return middle if inside and reached < chord * (1.0 - CHORD_TOLERANCE) else None


SAMPLES = 256  # prices at which a frontier among real widths is sampled
PRICE_RATIO = 4.0
PRICE_STEPS = 64  # the range of sampled prices reaches at most this many times that ratio from the mean price


@dataclass(frozen=True, slots=True, eq=False)
class FrontierSamples:
    """Optima among real widths at falling prices."""

    choices: WidthOptions
    totals: tuple[Total, ...]
    price: Floats  # how many fewer jobs are present with the next GPU, by sample

    @classmethod
    def of(cls, classes: Sequence[JobClass]) -> FrontierSamples:
        """Sample between the prices above and below which the choice no longer changes."""
        choices = real_choices_of(classes)
        ends = choices.cheapest(0.0, 1.0), choices.cheapest(1.0, 0.0)
        if ends[1].gpus <= ends[0].gpus:
            return cls(choices, ends[:1], np.zeros(1))
        mean = (ends[0].jobs - ends[1].jobs) / (ends[1].gpus - ends[0].gpus)
        high = _until(choices, mean, PRICE_RATIO, ends[0])
        low = _until(choices, mean, 1.0 / PRICE_RATIO, ends[1])
        prices = np.geomspace(high, low, SAMPLES)
        sampled = [ends[0], *(choices.cheapest(1.0, float(price)) for price in prices), ends[1]]
        kept = [0]
        for index, total in enumerate(sampled):
            if total.gpus > sampled[kept[-1]].gpus * (1.0 + TIE_SHARE):
                kept.append(index)
        # A choice that is best over a range of prices gets the lowest of them: what the next GPU buys.
        until = [index - 1 for index in kept[1:]]
        last = [*np.concatenate((prices[:1], prices))[until], 0.0]
        return cls(choices, tuple(sampled[index] for index in kept), np.array(last))

    def budget_for(self, jobs: float) -> float:
        """Return the least GPUs with which this many jobs are present on average."""

        def is_low(total: Total) -> bool:
            return total.jobs >= jobs

        edge = polished(self.choices, find_edge(self.choices, is_low), is_low)
        fewer = edge.low.jobs - edge.high.jobs
        share = (edge.low.jobs - jobs) / fewer if fewer > 0 else 0.0
        return edge.low.gpus + share * (edge.high.gpus - edge.low.gpus)


def _until(choices: WidthOptions, price: float, ratio: float, end: Total) -> float:
    """Multiply a price by a ratio until the choice is `end`, the one at that end of all prices."""
    for _ in range(PRICE_STEPS):
        if math.isclose(choices.cheapest(1.0, price).gpus, end.gpus, rel_tol=TIE_SHARE):
            break
        price *= ratio
    return price


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
        return len(self.budget_gpus)

    def plan_at(self, budget_gpus: float) -> FleetPlan:
        """Return the optimum for a budget. Raises InfeasibleError where it is too small."""
        budget_gpus = checked_budget(budget_gpus, float(self.budget_gpus[0]))
        if isinstance(self.source, FrontierSamples):
            return optimum(self.job_classes, self.source.choices, budget_gpus, integer=False)
        corner = int(np.searchsorted(self.budget_gpus, budget_gpus * (1.0 + TIE_SHARE), side="right")) - 1
        low = self.source.choice(corner)
        high = self.source.choice(corner + 1) if corner + 1 < len(self) else low
        mix = between(self.source.items, low, high, budget_gpus)
        price = float(self.source.price[corner]) if corner + 1 < len(self) else 0.0
        return assemble(self.job_classes, self.source.items, mix, budget_gpus, price)

    def cheapest_budget_for(self, mean_response_hours: float) -> float:
        """Return the least budget with a mean response time. Raises InfeasibleError below the fastest."""
        means = self.mean_response_hours
        if not (math.isfinite(mean_response_hours) and mean_response_hours > 0):
            raise InputError(f"mean_response_hours must be a finite number > 0, got {mean_response_hours:g}")
        if mean_response_hours < means[-1] * (1.0 - TIE_SHARE):
            raise InfeasibleError(
                f"mean_response_hours must be >= {rounded_up(float(means[-1]))}, the fastest on any budget, "
                f"got {mean_response_hours:g}; allow more time, or wider widths"
            )
        target = float(mean_response_hours)
        if target >= means[0]:
            return float(self.budget_gpus[0])
        if isinstance(self.source, FrontierSamples):
            return self.source.budget_for(target * _arrivals(self.job_classes))
        return float(np.interp(-target, -means, self.budget_gpus))


def _arrivals(classes: Sequence[JobClass]) -> float:
    return math.fsum(job_class.arrivals_per_hour for job_class in classes)


def frontier(classes: Sequence[JobClass], integer: bool = True) -> Frontier:
    """Find the frontier of classes, among their own widths or among all real ones between."""
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
