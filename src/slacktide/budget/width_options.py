"""The widths that can be chosen, and the best choice when an hour and a GPU-hour have a price.

The budget couples the classes by one number only: the price of a GPU-hour in hours, the nu of the papers.
Given it, every *item* is chosen alone: an item is a phase, where changing the width is free, or all
phases of a class, where it is not. A *part* knows how to choose for items of one kind; `WidthOptions` puts
parts together, so that the search over prices does not depend on how they choose.

The search: two choices, one within the budget and one beyond it, lie on a chord in the plane of GPUs and
jobs present. The best choice at the chord's own price either lies below it and takes the place of one of the
two, or nothing does: then the chord is an edge of the frontier, and both are best at its price. Unlike a
bisection this ends at the exact price, after few steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from slacktide.budget.classes import JobClass, speedups_at
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, shown
from slacktide.core.types import Phase

TIE_SHARE = 1e-12  # amounts closer than this share of them are equal: k * x / k is not x in floating point


class PhaseWidths(NamedTuple):
    """One phase, whose it is, the widths it may have, and the pause before it."""

    class_name: str
    phase: Phase
    widths: Floats
    start_hours: float = 0.0
    """Hours without progress before the phase, with its width billed: the restart of a first start."""


class WidthTable(NamedTuple):
    """Hours and GPU-hours of some phases at each of their widths, one row after another."""

    start: Ints  # where each row begins, and at last where all end
    widths: Floats
    hours: Floats
    gpu_hours: Floats


class WidthChoice(NamedTuple):
    """One choice for each item."""

    gpu_hours: Floats  # by item, for one job
    hours: Floats
    widths: Floats  # by phase, all phases of all items in order


class Weights(NamedTuple):
    """The weights of an hour and of a GPU-hour."""

    hour: float
    gpu_hour: float


class WidthChooser(Protocol):
    """Chooses widths for items of one kind."""

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Minimise weighted hours and GPU-hours for each item; if one weighs 0, it decides between equals."""
        ...


def rows_of(entries: Sequence[PhaseWidths]) -> WidthTable:
    """Tabulate phases. Raises InputError where a speedup is not a number > 0."""
    known: dict[tuple[int, int], Floats] = {}
    rates = []
    for entry in entries:
        key = id(entry.phase.speedup), id(entry.widths)
        if key not in known:
            known[key] = speedups_at(entry.phase.speedup, entry.widths)
        rates.append(known[key])
    lengths = np.array([len(rate) for rate in rates], dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(lengths)))
    rate = np.concatenate(rates)
    widths = np.concatenate([entry.widths for entry in entries])
    _check(entries, start, widths, rate)
    hours = np.repeat([entry.phase.work_gpu_hours for entry in entries], lengths) / rate
    hours += np.repeat([entry.start_hours for entry in entries], lengths)
    return WidthTable(start, widths, _tied(hours, start, lengths), _tied(widths * hours, start, lengths))


def _check(entries: Sequence[PhaseWidths], start: Ints, widths: Floats, rate: Floats) -> None:
    good = np.isfinite(rate) & (rate > 0)
    if good.all():
        return
    wrong = int(np.argmin(good))
    entry = entries[int(np.searchsorted(start, wrong, side="right")) - 1]
    raise InputError(
        f"class {shown(entry.class_name)}: the speedup must be > 0 at every allowed width, got "
        f"{rate[wrong]:g} at {widths[wrong]:g} GPUs; correct the speedup or leave the width out"
    )


def _tied(values: Floats, start: Ints, lengths: Ints) -> Floats:
    """Make values equal to their row's least where only rounding keeps them apart."""
    least = np.repeat(np.minimum.reduceat(values, start[:-1]), lengths)
    return np.where(values <= least * (1.0 + TIE_SHARE), least, values)


CHORD_TOLERANCE = 1e-14
"""A choice is below a chord only if by more than this share of its cost: sums are no more exact."""
PATIENCE = 12  # after this many chords every second step halves the range of prices: chords may be slow
MOST_STEPS = 400  # the search ends here if rounding keeps every chord from being an edge
NEAR = 1e-5  # how far from the price of a chord its true price may be, as a share of it


class Items(NamedTuple):
    """The items of all classes, in the order of the classes and their phases."""

    class_of: Ints
    first_phase: Ints  # where each item's phases begin among all phases, and at last where all end
    arrivals_per_hour: Floats
    first_item: Ints  # where each class's items begin


def is_bound(job_class: JobClass) -> bool:
    """Whether the phases of a class depend on each other, as a change of width costs something."""
    return len(job_class.phases) > 1 and job_class.restart_hours > 0


def items_of(classes: Sequence[JobClass]) -> Items:
    """Lay out the items of classes. Raises InputError where there are none, or two of one name."""
    if not classes:
        raise InputError("classes must name at least one class of jobs, got none")
    names = [job_class.name for job_class in classes]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"each class must have a name of its own, got {shown(name)} twice")
    counts = [1 if is_bound(job_class) else len(job_class.phases) for job_class in classes]
    lengths = [
        length
        for job_class in classes
        for length in ((len(job_class.phases),) if is_bound(job_class) else (1,) * len(job_class.phases))
    ]
    return Items(
        np.repeat(np.arange(len(classes)), counts),
        np.concatenate(([0], np.cumsum(lengths))),
        np.repeat([job_class.arrivals_per_hour for job_class in classes], counts),
        np.concatenate(([0], np.cumsum(counts[:-1]))).astype(np.int64),
    )


class Total(NamedTuple):
    """A choice, and its totals over all classes."""

    choice: WidthChoice
    gpus: float  # GPUs rented on average over time
    jobs: float  # jobs present on average over time: by Little's law, response times arrivals

    def cost(self, price: float) -> float:
        return self.jobs + price * self.gpus


@dataclass(frozen=True, slots=True, eq=False)
class WidthOptions:
    """All items of some classes, and the parts that choose for them."""

    items: Items
    parts: tuple[tuple[Ints, WidthChooser], ...]  # each part with the items it chooses for

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> Total:
        """Choose for every item at given weights."""
        first, count = self.items.first_phase, len(self.items.class_of)
        gpu_hours, hours, widths = np.empty(count), np.empty(count), np.empty(first[-1])
        for members, part in self.parts:
            choice = part.cheapest(hour_weight, gpu_hour_weight)
            gpu_hours[members], hours[members] = choice.gpu_hours, choice.hours
            widths[_phases(first, members)] = choice.widths
        rate = self.items.arrivals_per_hour
        return Total(
            WidthChoice(gpu_hours, hours, widths),
            float((rate * gpu_hours).sum()),
            float((rate * hours).sum()),
        )


def _phases(first: Ints, members: Ints) -> Ints:
    """Return the phases of some items, in order."""
    lengths = first[members + 1] - first[members]
    ends = np.cumsum(lengths)
    found: Ints = np.arange(ends[-1]) + np.repeat(first[members] - (ends - lengths), lengths)
    return found


class FrontierEdge(NamedTuple):
    """An edge of the frontier; at its end both totals are the same and the price is 0."""

    low: Total
    high: Total
    price: float  # how many fewer jobs are present with one more GPU


def find_edge(choices: WidthOptions, is_low: Callable[[Total], bool]) -> FrontierEdge:
    """Find the edge between totals that are low and others; the narrowest must be low."""
    low, high = choices.cheapest(0.0, 1.0), choices.cheapest(1.0, 0.0)
    if is_low(high):
        return FrontierEdge(high, high, 0.0)
    least, most, chord = 0.0, math.inf, math.inf
    for step in range(MOST_STEPS):
        if high.gpus <= low.gpus:
            break
        chord = (low.jobs - high.jobs) / (high.gpus - low.gpus)
        halve = step >= PATIENCE and step % 2 == 1 and least > 0.0 and most < math.inf
        price = math.sqrt(least * most) if halve else chord
        middle = choices.cheapest(1.0, price)
        if not halve and _is_edge(low, high, middle, price):
            break
        if is_low(middle):
            low, most = middle, price
        else:
            high, least = middle, price
    return FrontierEdge(low, high, chord)


def polished(choices: WidthOptions, edge: FrontierEdge, is_low: Callable[[Total], bool]) -> FrontierEdge:
    """Bisect the price of an edge if choices change smoothly with it.

    Then a chord is an edge to within rounding as soon as its ends are some 1e-7 apart.
    """
    low, high = (choices.cheapest(1.0, edge.price * (1.0 + side * NEAR)) for side in (1.0, -1.0))
    if not is_low(low) or is_low(high):
        return edge
    most, least = edge.price * (1.0 + NEAR), edge.price * (1.0 - NEAR)
    while least < (price := (least + most) / 2.0) < most:
        middle = choices.cheapest(1.0, price)
        if is_low(middle):
            low, most = middle, price
        else:
            high, least = middle, price
    return FrontierEdge(low, high, price)


def _is_edge(low: Total, high: Total, middle: Total, price: float) -> bool:
    """Whether the best choice at a chord's price lies no lower than the chord."""
    cost = min(low.cost(price), high.cost(price))
    return middle.cost(price) >= cost * (1.0 - CHORD_TOLERANCE)
