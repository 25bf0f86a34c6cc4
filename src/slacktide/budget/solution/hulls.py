"""Single phases: the widths worth having lie on the lower convex hull of hours against GPU-hours.

A width above the hull is beaten by a mix of two others. From corner to corner the hull buys hours for
GPU-hours at a falling rate, so at any price the best corner is where the rate falls below the price.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slacktide.budget.solution.curves import WidthTable
from slacktide.budget.solution.width_options import WidthChoice
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled


@dataclass(frozen=True, slots=True, eq=False)
class Hulls:
    """The hull corners of some phases, from the fewest GPU-hours to the fewest hours."""

    start: Ints
    """Where each phase's corners begin, and at last where all end."""
    widths: Floats
    hours: Floats
    gpu_hours: Floats
    edge: Ints
    """The corner at which each edge begins."""

    @classmethod
    def of(cls, rows: WidthTable) -> Hulls:
        """Find the hull of each row."""
        corners, counts = np.empty(len(rows.hours), dtype=np.int64), np.empty(len(rows.start) - 1, np.int64)
        compiled(find_hulls)(rows, corners, counts)
        start = np.concatenate(([0], np.cumsum(counts)))
        kept = corners[: start[-1]]
        edge = np.delete(np.arange(start[-1]), start[1:] - 1)
        return cls(start, rows.widths[kept], rows.hours[kept], rows.gpu_hours[kept], edge)

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Take every edge that buys hours for less than their worth."""
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
