"""Widths for user-defined speedups, by numerical search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.budget.solution.curves import TIE_SHARE, PhaseWidths, WidthTable, rows_of
from slacktide.budget.solution.width_options import Weights, WidthChoice
from slacktide.core.arrays import Floats
from slacktide.core.speedup import Speedup

GRID = 256
"""Widths of the grid in equal ratios; the allowed whole ones are in it too."""
STEPS = 60
"""Golden sections: each leaves 0.618 of the range."""
NOTICEABLE = 1e-14
"""A width between grid points is taken if it is better by more than this share: bends are often at
whole widths."""
_RATIO = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Golden:
    """Phases whose best width is searched near the best of a grid."""

    entries: tuple[PhaseWidths, ...]
    rows: WidthTable

    @classmethod
    def of(cls, entries: Sequence[PhaseWidths]) -> Golden:
        """Evaluate the phases on a grid from their least width to their greatest."""
        finer = [entry._replace(widths=_finer(entry)) for entry in entries]
        return cls(tuple(finer), rows_of(finer))

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Search each phase's width alone."""
        found = [self._one(index, hour_weight, gpu_hour_weight) for index in range(len(self.entries))]
        gpu_hours, hours, widths = (np.array(values) for values in zip(*found, strict=True))
        return WidthChoice(gpu_hours, hours, widths)

    def _one(self, index: int, hour_weight: float, gpu_hour_weight: float) -> tuple[float, float, float]:
        span = slice(self.rows.start[index], self.rows.start[index + 1])
        hours, gpu_hours, widths = self.rows.hours[span], self.rows.gpu_hours[span], self.rows.widths[span]
        cost = hour_weight * hours + gpu_hour_weight * gpu_hours
        tied = cost <= cost.min() * (1.0 + TIE_SHARE)
        at = int(np.argmin(np.where(tied, hours + gpu_hours, math.inf)))
        phase, start = self.entries[index].phase, self.entries[index].start_hours
        low, high = widths[max(at - 1, 0)], widths[min(at + 1, len(widths) - 1)]
        weights, share = Weights(hour_weight, gpu_hour_weight), start / phase.work_gpu_hours
        width = section(phase.speedup, weights, share, float(low), float(high))
        took = start + phase.work_gpu_hours / phase.speedup(width)
        if (hour_weight + gpu_hour_weight * width) * took < cost[at] * (1.0 - NOTICEABLE):
            return width * took, took, width
        return float(gpu_hours[at]), float(hours[at]), float(widths[at])


def _finer(entry: PhaseWidths) -> Floats:
    least, most = entry.widths[0], entry.widths[-1]
    ratios = np.clip(np.geomspace(least, most, GRID), least, most)
    return np.unique(np.concatenate((ratios, entry.widths)))


def section(speedup: Speedup, weights: Weights, start_share: float, low: float, high: float) -> float:
    """Return the width between two at which (hours + GPU-hours x width) x (start + 1 / s) weighs least.

    `start_share` is the pause before the work over the time that the work takes on one GPU.
    """

    def cost(width: float) -> float:
        weight = weights.hour + weights.gpu_hour * width
        return weight / speedup(width) + weight * start_share

    left, right = high - _RATIO * (high - low), low + _RATIO * (high - low)
    at_left, at_right = cost(left), cost(right)
    for _ in range(STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _RATIO * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _RATIO * (high - low)
            at_right = cost(right)
    return (low + high) / 2.0
