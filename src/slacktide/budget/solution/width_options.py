"""What can be chosen, and the best choice when an hour and a GPU-hour have a price.

The budget couples the classes by one number only: the price of a GPU-hour in hours, the nu of the papers.
Given it, every *item* is chosen alone: an item is a phase, where changing the width is free, or all
phases of a class, where it is not. A *part* knows how to choose for items of one kind; `WidthOptions` puts
parts together, so that the search over prices does not see what lies behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.core.arrays import Floats, Ints


class WidthChoice(NamedTuple):
    """One choice for each item."""

    gpu_hours: Floats
    """By item, for one job."""
    hours: Floats
    widths: Floats
    """By phase, all phases of all items in order."""


class Weights(NamedTuple):
    """What an hour and a GPU-hour count."""

    hour: float
    gpu_hour: float


class WidthChooser(Protocol):
    """Items of one kind."""

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Minimise weighted hours and GPU-hours for each item; at ties whichever has less of the other."""
        ...


class Items(NamedTuple):
    """The items of all classes, in the order of the classes and their phases."""

    class_of: Ints
    first_phase: Ints
    """Where each item's phases begin among all phases, and at last where all end."""
    arrivals_per_hour: Floats
    first_item: Ints
    """Where each class's items begin."""


def is_bound(job_class: JobClass) -> bool:
    """Whether the phases of a class depend on each other, as a change of width costs something."""
    return len(job_class.phases) > 1 and job_class.restart_hours > 0


def items_of(classes: Sequence[JobClass]) -> Items:
    """Lay out the items of classes."""
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
    """A choice, and what it comes to over all classes."""

    choice: WidthChoice
    gpus: float
    """GPUs rented on average over time."""
    jobs: float
    """Jobs present on average over time: by Little's law, response times arrivals."""

    def cost(self, price: float) -> float:
        """Jobs present, and GPUs at a price."""
        return self.jobs + price * self.gpus


@dataclass(frozen=True, slots=True, eq=False)
class WidthOptions:
    """All items of some classes, and the parts that choose for them."""

    items: Items
    parts: tuple[tuple[Ints, WidthChooser], ...]
    """Each part with the items it chooses for."""

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
