"""Choose the best of tabulated widths at a price, for single phases and for phases that depend on each other.

Single phases: the widths worth having lie on the lower convex hull of hours against GPU-hours. A width above
the hull is beaten by a mix of two others. From corner to corner the hull buys hours for GPU-hours at a
falling rate, so at any price the best corner is where the rate falls below the price.

Classes in which a change of width costs a restart: whole paths are compared, and the best one is a shortest
path over (phase, width). A phase is entered at the same width for nothing, or from the best of all widths
before plus a restart at the new width: only the best one has to be remembered, so a phase costs O(widths) and
not O(widths squared). The restart of a job's first start is part of what its first phase takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass, width_array
from slacktide.budget.width_options import (
    PhaseWidths,
    Weights,
    WidthChoice,
    WidthChooser,
    WidthOptions,
    WidthTable,
    is_bound,
    items_of,
    rows_of,
)
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled


@dataclass(frozen=True, slots=True, eq=False)
class Hulls:
    """The hull corners of some phases, from the fewest GPU-hours to the fewest hours."""

    start: Ints  # where each phase's corners begin, and at last where all end
    widths: Floats
    hours: Floats
    gpu_hours: Floats
    edge: Ints  # the corner at which each edge begins

    @classmethod
    def of(cls, rows: WidthTable) -> Hulls:
        corners, counts = np.empty(len(rows.hours), dtype=np.int64), np.empty(len(rows.start) - 1, np.int64)
        compiled(find_hulls)(rows, corners, counts)
        start = np.concatenate(([0], np.cumsum(counts)))
        kept = corners[: start[-1]]
        edge = np.delete(np.arange(start[-1]), start[1:] - 1)
        return cls(start, rows.widths[kept], rows.hours[kept], rows.gpu_hours[kept], edge)

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Take every edge whose saved hours are worth more than its GPU-hours."""
        edge = self.edge
        saved = self.hours[edge] - self.hours[edge + 1]
        spent = self.gpu_hours[edge + 1] - self.gpu_hours[edge]
        taken = np.concatenate(([0], np.cumsum(hour_weight * saved > gpu_hour_weight * spent)))
        bounds = self.start - np.arange(len(self.start))
        pick = self.start[:-1] + taken[bounds[1:]] - taken[bounds[:-1]]
        return WidthChoice(self.gpu_hours[pick], self.hours[pick], self.widths[pick])


@compilable
def find_hulls(rows: WidthTable, corners: Ints, counts: Ints) -> None:
    """Write the corners of all rows one after another, and how many each row has."""
    end = 0
    for row in range(len(counts)):
        first, last = rows.start[row], rows.start[row + 1]
        begin = end
        for rank in by_gpu_hours(rows.gpu_hours[first:last]):
            end = add_point(rows, first + rank, corners, begin, end)
        counts[row] = end - begin


@compilable
def by_gpu_hours(gpu_hours: Floats) -> Ints:
    """Return the order of rising GPU-hours; most speedups are in order already."""
    for index in range(1, len(gpu_hours)):
        if gpu_hours[index] < gpu_hours[index - 1]:
            return np.argsort(gpu_hours, kind="mergesort")
    return np.arange(len(gpu_hours))


@compilable
def add_point(rows: WidthTable, point: int, corners: Ints, begin: int, end: int) -> int:
    """Extend a hull by a point with no fewer GPU-hours than any before; return its new end."""
    hours, gpu_hours = rows.hours, rows.gpu_hours
    if end > begin and hours[point] >= hours[corners[end - 1]]:
        return end
    if end > begin and gpu_hours[point] == gpu_hours[corners[end - 1]]:
        end -= 1
    while end - begin >= 2:
        left, middle = corners[end - 2], corners[end - 1]
        rise = (hours[middle] - hours[left]) * (gpu_hours[point] - gpu_hours[left])
        if rise < (hours[point] - hours[left]) * (gpu_hours[middle] - gpu_hours[left]):
            break
        end -= 1
    corners[end] = point
    return end + 1


class Scratch(NamedTuple):
    """Memory of the shortest path: costs by width, and where each width came from by phase and width."""

    cost: Floats
    other: Floats  # hours and GPU-hours, unweighted: decides between equal costs
    origin: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Some classes, each with all its phases at the same widths."""

    rows: WidthTable
    first_row: Ints  # where each class's rows begin, and at last where all end
    restart_hours: Floats
    scratch: Scratch

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        count = len(self.restart_hours)
        choice = WidthChoice(np.empty(count), np.empty(count), np.empty(self.first_row[-1]))
        weights = Weights(float(hour_weight), float(gpu_hour_weight))
        compiled(find_paths)(self.rows, self.first_row, self.restart_hours, weights, self.scratch, choice)
        return choice


@compilable
def find_paths(
    rows: WidthTable,
    first_row: Ints,
    restart_hours: Floats,
    weights: Weights,
    scratch: Scratch,
    choice: WidthChoice,
) -> None:
    """Write the shortest path of each class, its hours and its GPU-hours."""
    for item in range(len(restart_hours)):
        begin, end = first_row[item], first_row[item + 1]
        for row in range(begin, end):
            enter(rows, row, row - begin, restart_hours[item], weights, scratch)
        follow(rows, begin, end, scratch, choice.widths)
        add_up(rows, begin, end, restart_hours[item], item, choice)


@compilable
def lightest(scratch: Scratch, count: int) -> int:
    """Return the width of the least cost."""
    best = 0
    for width in range(1, count):
        if scratch.cost[width] < scratch.cost[best] or (
            scratch.cost[width] == scratch.cost[best] and scratch.other[width] < scratch.other[best]
        ):
            best = width
    return best


@compilable
def enter(
    rows: WidthTable, row: int, phase: int, restart_hours: float, weights: Weights, scratch: Scratch
) -> None:
    """Add one phase to the costs of all widths, and note where each came from."""
    first, count = rows.start[row], rows.start[row + 1] - rows.start[row]
    cost, other, origin = scratch.cost, scratch.other, scratch.origin
    best, best_cost, best_other = 0, 0.0, 0.0
    if phase > 0:
        best = lightest(scratch, count)
        best_cost, best_other = cost[best], other[best]
    for width in range(count):
        hours, gpu_hours, gpus = (
            rows.hours[first + width],
            rows.gpu_hours[first + width],
            rows.widths[first + width],
        )
        before, before_other, came = 0.0, 0.0, width
        if phase > 0:
            before, before_other = cost[width], other[width]
            change = best_cost + (weights.hour + weights.gpu_hour * gpus) * restart_hours
            change_other = best_other + (1.0 + gpus) * restart_hours
            if change < before or (change == before and change_other < before_other):
                before, before_other, came = change, change_other, best
        cost[width] = before + weights.hour * hours + weights.gpu_hour * gpu_hours
        other[width] = before_other + hours + gpu_hours
        origin[phase * count + width] = came


@compilable
def follow(rows: WidthTable, begin: int, end: int, scratch: Scratch, index: Floats) -> None:
    """Write the positions of the best widths, from the last phase back to the first."""
    count = rows.start[begin + 1] - rows.start[begin]
    at = lightest(scratch, count)
    for row in range(end - 1, begin - 1, -1):
        index[row] = at
        at = scratch.origin[(row - begin) * count + at]


@compilable
def add_up(
    rows: WidthTable, begin: int, end: int, restart_hours: float, item: int, choice: WidthChoice
) -> None:
    """Sum what a path takes, and turn positions into widths."""
    hours, gpu_hours, held = 0.0, 0.0, -1.0
    for row in range(begin, end):
        cell = rows.start[row] + int(choice.widths[row])
        gpus = rows.widths[cell]
        if held not in (-1.0, gpus):
            hours += restart_hours
            gpu_hours += gpus * restart_hours
        hours += rows.hours[cell]
        gpu_hours += rows.gpu_hours[cell]
        held = gpus
        choice.widths[row] = gpus
    choice.hours[item] = hours
    choice.gpu_hours[item] = gpu_hours


def choices_of(classes: Sequence[JobClass]) -> WidthOptions:
    items = items_of(classes)
    bound = np.array([is_bound(job_class) for job_class in classes])[items.class_of]
    parts: list[tuple[Ints, WidthChooser]] = []
    if not bound.all():
        free = [job_class for job_class in classes if not is_bound(job_class)]
        parts.append((np.flatnonzero(~bound), Hulls.of(rows_of(entries_of(free)))))
    if bound.any():
        parts.append((np.flatnonzero(bound), paths_of([each for each in classes if is_bound(each)])))
    return WidthOptions(items, tuple(parts))


def allowed_widths(job_class: JobClass) -> Floats:
    return width_array(job_class.widths)


def entries_of(
    classes: Sequence[JobClass], widths_of: Callable[[JobClass], Floats] = allowed_widths
) -> list[PhaseWidths]:
    """List all phases of classes at some widths; each class begins with the restart of a first start."""
    return [
        PhaseWidths(each.name, phase, widths, 0.0 if index else each.restart_hours)
        for each, widths in ((each, widths_of(each)) for each in classes)
        for index, phase in enumerate(each.phases)
    ]


def paths_of(classes: Sequence[JobClass], widths_of: Callable[[JobClass], Floats] = allowed_widths) -> Paths:
    rows = rows_of(entries_of(classes, widths_of))
    first_row = np.concatenate(([0], np.cumsum([len(job_class.phases) for job_class in classes])))
    most = int(np.max(np.diff(rows.start)))
    cells = int(np.max(rows.start[first_row[1:]] - rows.start[first_row[:-1]]))
    scratch = Scratch(np.empty(most), np.empty(most), np.empty(cells, dtype=np.int64))
    restart_hours = np.array([job_class.restart_hours for job_class in classes], dtype=np.float64)
    return Paths(rows, first_row, restart_hours, scratch)
