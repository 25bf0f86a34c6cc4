"""Real widths of single phases by formula: Amdahl's law, power laws and straight pieces.

A phase of work X that begins with a pause of R hours takes R + X / s(k) hours on k GPUs. Weighted, it costs
(w + v k) (R + X / s(k)); in terms of 1 / s that is convex wherever s is concave, so one width is best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slacktide.budget.solution.width_options import WidthChoice
from slacktide.core.arrays import Floats, Ints

NEWTON_STEPS = 8
"""Newton's method begins within a factor of two of the root and doubles its digits from there."""


@dataclass(frozen=True, slots=True, eq=False)
class AmdahlPhases:
    """Phases that follow Amdahl's law: a pause is more serial work, k = sqrt(f / (price * serial))."""

    work_gpu_hours: Floats
    start_hours: Floats
    parallel_share: Floats
    least: Floats
    most: Floats

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Choose each phase's width by its closed form."""
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

    The left side rises and is convex, and from where one of its terms alone is the target Newton's method
    falls towards the root without ever passing it.
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

    phase: Ints
    """By piece, ascending."""
    first: Ints
    """By phase: its first piece."""
    work_gpu_hours: Floats
    """This and what follows is by piece."""
    start_hours: Floats
    least: Floats
    most: Floats
    least_speed: Floats
    most_speed: Floats

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Choose each phase's best piece, and the width on it."""
        widths, speeds = self._best(hour_weight, gpu_hour_weight)
        hours = self.start_hours + self.work_gpu_hours / speeds
        gpu_hours = widths * hours
        cost = hour_weight * hours + gpu_hour_weight * gpu_hours
        pick = np.lexsort((hours + gpu_hours, cost, self.phase))[self.first]
        return WidthChoice(gpu_hours[pick], hours[pick], widths[pick])

    def _best(self, hour_weight: float, gpu_hour_weight: float) -> tuple[Floats, Floats]:
        """Return the best width of each piece, and its speed; a piece that is not faster is left at once."""
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
