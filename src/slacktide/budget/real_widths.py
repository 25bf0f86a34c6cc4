"""Real widths: the optimum when a job may hold any share of GPUs on average.

A phase of work X that begins with a pause of R hours takes R + X / s(k) hours on k GPUs. Weighted, it costs
(w + v k) (R + X / s(k)); in terms of 1 / s that is convex wherever s is concave, so one width is best:
Amdahl's law, power laws and straight pieces (linear speedups, measured tables) have it in closed form; where
no restart precedes them, pieces are straight in the plane of GPU-hours and hours too, and their corners are
enough. For any other speedup golden sections search around the best width of a fine grid. Classes whose
phases depend on each other use a grid of PATH_GRID widths in equal ratios, with all allowed whole widths and
all corners of tables. What that misses is small, as costs are flat near their minimum: on 450 random fleets
with widths from 1 to 64, at most 4e-6 of the mean response against a grid eight times as fine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from slacktide.budget.classes import JobClass, speedups_at
from slacktide.budget.whole_widths import Hulls, allowed_widths, paths_of
from slacktide.budget.width_options import (
    TIE_SHARE,
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
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Phase

NEWTON_STEPS = 8
"""Newton's method begins within a factor of two of the root and doubles its digits from there."""
GRID = 256  # widths of the grid in equal ratios; the allowed whole ones are in it too
STEPS = 60  # golden sections: each leaves 0.618 of the range
NOTICEABLE = 1e-14
"""A width between grid points is taken if it is better by more than this share: bends are often at
whole widths."""
_RATIO = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class AmdahlPhases:
    """Phases that follow Amdahl's law: a pause is more serial work, k = sqrt(f / (price * serial))."""

    work_gpu_hours: Floats
    start_hours: Floats
    parallel_share: Floats
    least: Floats
    most: Floats

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        share = self.parallel_share
        serial = 1.0 - share + self.start_hours / self.work_gpu_hours
        gain, cost = hour_weight * share, gpu_hour_weight * serial
        # A job without a serial part is served best at its widest at any price.
        square = np.divide(gain, cost, out=np.full_like(gain, math.inf), where=cost > 0)
        best = np.where(share == 0.0, 0.0, np.sqrt(square))
        widths = np.clip(best, self.least, self.most)
        hours = self.work_gpu_hours * (serial + share / widths)
        return WidthChoice(widths * hours, hours, widths)


@dataclass(frozen=True, slots=True, eq=False)
class PowerPhases:
    """Phases that follow a power law: k = p / (price * (1 - p)), less where a pause makes GPUs idle."""

    work_gpu_hours: Floats
    start_hours: Floats
    exponent: Floats
    least: Floats
    most: Floats

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Choose each phase's width by its closed form; by Newton's method where a pause comes first."""
        gain, cost = hour_weight * self.exponent, gpu_hour_weight * (1.0 - self.exponent)
        best = np.divide(gain, cost, out=np.full_like(gain, math.inf), where=cost > 0)
        paused = self.start_hours > 0
        if gpu_hour_weight > 0 and paused.any():
            share = self.start_hours[paused] / self.work_gpu_hours[paused]
            best[paused] = power_root(share, self.exponent[paused], gain[paused] / gpu_hour_weight)
        widths = np.clip(best, self.least, self.most)
        hours = self.start_hours + self.work_gpu_hours / widths**self.exponent
        return WidthChoice(widths * hours, hours, widths)


def power_root(share: Floats, exponent: Floats, target: Floats) -> Floats:
    """Solve share * k ** (p + 1) + (1 - p) * k = target for k, where share > 0 and target >= 0.

    The left side rises and is convex, so from a width at which one of its terms alone is the target, Newton's
    method falls towards the root without ever passing it.
    """
    line = 1.0 - exponent
    width = np.minimum(
        (target / share) ** (1.0 / (exponent + 1.0)),
        np.divide(target, line, out=np.full_like(target, math.inf), where=line > 0),
    )
    for _ in range(NEWTON_STEPS):
        bent = share * width**exponent
        slope = bent * (exponent + 1.0) + line
        width -= np.divide((bent + line) * width - target, slope, out=np.zeros_like(width), where=slope > 0)
    return width


@dataclass(frozen=True, slots=True, eq=False)
class PausedPieces:
    """Phases that begin with a pause and whose speedups are made of straight pieces s = a k + b.

    On a piece s = sqrt(X (a / price - b) / R). Without a pause pieces stay straight in the plane of GPU-hours
    and hours, and their corners are enough.
    """

    phase: Ints  # by piece, ascending
    first: Ints  # by phase: its first piece
    work_gpu_hours: Floats  # this and what follows is by piece
    start_hours: Floats
    least: Floats
    most: Floats
    least_speed: Floats
    most_speed: Floats

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        widths, speeds = self._best(hour_weight, gpu_hour_weight)
        hours = self.start_hours + self.work_gpu_hours / speeds
        gpu_hours = widths * hours
        cost = hour_weight * hours + gpu_hour_weight * gpu_hours
        pick = np.lexsort((hours + gpu_hours, cost, self.phase))[self.first]
        return WidthChoice(gpu_hours[pick], hours[pick], widths[pick])

    def _best(self, hour_weight: float, gpu_hour_weight: float) -> tuple[Floats, Floats]:
        """Return the best width of each piece, and its speed; on a piece that is flat, its least width."""
        rises = self.most_speed > self.least_speed
        slope = np.divide(
            self.most_speed - self.least_speed,
            self.most - self.least,
            out=np.zeros_like(self.least),
            where=rises,
        )
        level = self.least_speed - slope * self.least
        gain = self.work_gpu_hours * np.maximum(hour_weight * slope - gpu_hour_weight * level, 0.0)
        cost = gpu_hour_weight * self.start_hours
        square = np.divide(gain, cost, out=np.full_like(gain, math.inf), where=cost > 0)
        speeds = np.where(
            rises, np.clip(np.sqrt(square), self.least_speed, self.most_speed), self.least_speed
        )
        along = np.divide(speeds - self.least_speed, slope, out=np.zeros_like(speeds), where=rises)
        at_end = rises & (speeds == self.most_speed)
        return np.where(at_end, self.most, self.least + along), speeds


@dataclass(frozen=True, slots=True, eq=False)
class Golden:
    """Phases whose best width is searched near the best of a grid."""

    entries: tuple[PhaseWidths, ...]
    rows: WidthTable

    @classmethod
    def of(cls, entries: Sequence[PhaseWidths]) -> Golden:
        """Evaluate the phases on a grid from their least width to their greatest."""
        finer = [entry._replace(widths=grid_with(entry.widths, GRID)) for entry in entries]
        return cls(tuple(finer), rows_of(finer))

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
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


def grid_with(widths: Floats, count: int) -> Floats:
    """Return ascending widths with this many more in equal ratios from the first of them to the last."""
    least, most = widths[0], widths[-1]
    # Rounding may put the ends of the ratios just outside, where speedups need not be defined.
    ratios = np.clip(np.geomspace(least, most, count), least, most)
    return np.unique(np.concatenate((ratios, widths)))


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


PATH_GRID = 1024  # widths in the grid of a class whose phases depend on each other

Member = tuple[JobClass, Phase]


def real_choices_of(classes: Sequence[JobClass]) -> WidthOptions:
    items = items_of(classes)
    phases = [(job_class, phase) for job_class in classes for phase in job_class.phases]
    members: dict[Callable[[list[Member]], WidthChooser], list[int]] = {}
    for item, first in enumerate(items.first_phase[:-1]):
        members.setdefault(_maker(*phases[first]), []).append(item)
    parts = [
        (np.array(found), make([phases[items.first_phase[item]] for item in found]))
        for make, found in members.items()
    ]
    return WidthOptions(items, tuple(parts))


def _maker(job_class: JobClass, phase: Phase) -> Callable[[list[Member]], WidthChooser]:
    """Return the function that makes the chooser for a phase, or for all phases of a class."""
    if is_bound(job_class):
        return _paths
    straight = _pieces if job_class.restart_hours > 0 else _corners_only
    # By exact type: a user's own subclass may scale in any way, so it is searched.
    return {**FORMULAS, Linear: straight, Table: straight}.get(type(phase.speedup), _golden)


def _by_formula(
    chooser: type[AmdahlPhases | PowerPhases], parameter: str, members: list[Member]
) -> WidthChooser:
    ends = np.array([(each.widths[0], each.widths[-1]) for each, _ in members], dtype=np.float64)
    return chooser(
        np.array([phase.work_gpu_hours for _, phase in members]),
        # Phases that are chosen alone are their class's first, or begin without a restart.
        np.array([job_class.restart_hours for job_class, _ in members]),
        np.array([getattr(phase.speedup, parameter) for _, phase in members]),
        ends[:, 0],
        ends[:, 1],
    )


FORMULAS: dict[type[Any], Callable[[list[Member]], WidthChooser]] = {
    Amdahl: partial(_by_formula, AmdahlPhases, "parallel_share"),
    Power: partial(_by_formula, PowerPhases, "exponent"),
}


def _corners_only(members: list[Member]) -> WidthChooser:
    rows = [PhaseWidths(each.name, phase, _corners(each, [phase])) for each, phase in members]
    return Hulls.of(rows_of(rows))


def _pieces(members: list[Member]) -> WidthChooser:
    rows = []
    for index, (each, phase) in enumerate(members):
        corners = _corners(each, [phase])
        speeds = speedups_at(phase.speedup, corners)
        for left in range(max(1, len(corners) - 1)):
            right = min(left + 1, len(corners) - 1)
            ends = (corners[left], corners[right], speeds[left], speeds[right])
            rows.append((index, phase.work_gpu_hours, each.restart_hours, *ends))
    phases, *columns = np.array(rows).T.copy()
    phase_of = phases.astype(np.int64)
    return PausedPieces(phase_of, np.searchsorted(phase_of, np.arange(len(members))), *columns)


def _golden(members: list[Member]) -> WidthChooser:
    return Golden.of(
        [PhaseWidths(each.name, phase, allowed_widths(each), each.restart_hours) for each, phase in members]
    )


def _paths(members: list[Member]) -> WidthChooser:
    return paths_of([job_class for job_class, _ in members], _grid)


def _corners(job_class: JobClass, phases: Sequence[Phase]) -> Floats:
    """Return the least width, the greatest, and those between at which a measured speedup bends."""
    least, most = job_class.widths[0], job_class.widths[-1]
    tables = [phase.speedup for phase in phases if isinstance(phase.speedup, Table)]
    bends = {gpus for table in tables for gpus, _ in table.hull() if least < gpus < most}
    return np.array(sorted({float(least), float(most), *bends}))


def _grid(job_class: JobClass) -> Floats:
    allowed_and_bends = np.concatenate((job_class.widths, _corners(job_class, job_class.phases)))
    return grid_with(np.unique(allowed_and_bends), PATH_GRID)
