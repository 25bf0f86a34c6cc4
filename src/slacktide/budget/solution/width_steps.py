"""All budgets at once: the edges of every item's hull, in the order in which they are worth taking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.solution.continuous import allowed_entries, paths_of
from slacktide.budget.solution.curves import rows_of
from slacktide.budget.solution.hulls import Hulls
from slacktide.budget.solution.paths import Paths
from slacktide.budget.solution.search import CHORD_TOLERANCE
from slacktide.budget.solution.width_options import Items, WidthChoice, is_bound, items_of
from slacktide.core.arrays import Floats, Ints


class ItemHull(NamedTuple):
    """The corners of one item's hull, from the fewest GPU-hours to the fewest hours."""

    gpu_hours: Floats
    hours: Floats
    widths: Floats
    """By corner and phase."""


@dataclass(frozen=True, slots=True, eq=False)
class WidthSteps:
    """A fractional knapsack: each step takes one item to its next corner; the best bargains come first."""

    items: Items
    hulls: tuple[ItemHull, ...]
    item: Ints
    """The item of each step."""
    gpus: Floats
    """GPUs more on average over time, by step."""
    jobs: Floats
    """Jobs fewer on average over time, by step."""
    price: Floats
    """Jobs fewer by one GPU more; never rises."""

    @classmethod
    def of(cls, classes: Sequence[JobClass]) -> WidthSteps:
        """Find every item's hull and merge their edges."""
        items, hulls = items_of(classes), hulls_of(classes)
        item = np.repeat(np.arange(len(hulls)), [len(hull.hours) - 1 for hull in hulls])
        gpu_hours = np.concatenate([np.diff(hull.gpu_hours) for hull in hulls])
        hours = np.concatenate([-np.diff(hull.hours) for hull in hulls])
        price = _falling(hours / gpu_hours, item)
        order, rate = np.argsort(-price, kind="stable"), items.arrivals_per_hour[item]
        return cls(items, hulls, item[order], (rate * gpu_hours)[order], (rate * hours)[order], price[order])

    def choice(self, steps: int) -> WidthChoice:
        """Return the choice after some steps."""
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
    single = iter(_single(Hulls.of(rows_of(allowed_entries(free)))) if free else ())
    found: list[ItemHull] = []
    for job_class in classes:
        if is_bound(job_class):
            found.append(path_hull(paths_of([job_class])))
        else:
            found.extend(next(single) for _ in job_class.phases)
    return tuple(found)


def _single(hulls: Hulls) -> list[ItemHull]:
    """Take hulls of single phases apart."""
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
