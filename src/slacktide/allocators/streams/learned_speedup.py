"""How fast the jobs of a class are at each width, learned from their progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PRIOR_EXPONENT = 0.8  # a class of which one width is known is taken to speed up as n ** 0.8
REACH = 2.0  # widths are guessed at up to this multiple of the widest one that was tried
CANDIDATES_PER_DOUBLING = 8  # how finely widths are considered; every allowed one where these are fewer


@dataclass(slots=True)
class LearnedSpeedup:
    """Progress per hour at the widths that were tried, and a guess at the others."""

    hours: dict[int, float] = field(default_factory=dict)
    work_gpu_hours: dict[int, float] = field(default_factory=dict)

    def learn(self, gpus: int, hours: float, work_gpu_hours: float) -> None:
        """Add what was seen at a width."""
        self.hours[gpus] = self.hours.get(gpus, 0.0) + hours
        self.work_gpu_hours[gpus] = self.work_gpu_hours.get(gpus, 0.0) + work_gpu_hours

    def remember(self) -> list[list[float]]:
        """Return the hours and the work at each width as JSON values."""
        return [[gpus, hours, self.work_gpu_hours[gpus]] for gpus, hours in self.hours.items()]

    @classmethod
    def recalled(cls, memory: Sequence[Sequence[Any]]) -> LearnedSpeedup:
        """Return the curve that was written down."""
        return cls({gpus: hours for gpus, hours, _ in memory}, {gpus: work for gpus, _, work in memory})

    @property
    def tried(self) -> list[int]:
        """The widths at which progress was seen, ascending."""
        return sorted(gpus for gpus, work in self.work_gpu_hours.items() if work > 0)

    def rates(self, widths: list[int]) -> list[float]:
        """Return the rates at some widths: straight lines in logarithms between those that were tried.

        Outside, the last line is followed as far as it may be: nothing speeds up more than in proportion.
        """
        tried = self.tried
        xs = np.log(tried)
        ys = np.log([self.work_gpu_hours[gpus] / self.hours[gpus] for gpus in tried])
        slopes = np.diff(ys) / np.diff(xs) if len(tried) > 1 else np.array([PRIOR_EXPONENT])
        low, high = float(np.clip(slopes[0], 0.0, 1.0)), float(np.clip(slopes[-1], -1.0, 1.0))
        at = np.log(widths)
        inside = np.interp(at, xs, ys)
        outside = low * np.minimum(at - xs[0], 0.0) + high * np.maximum(at - xs[-1], 0.0)
        found: list[float] = np.exp(inside + outside).tolist()
        return found


def thinned(widths: tuple[int, ...]) -> list[int]:
    """Keep the widths that are at least an eighth of a doubling wider than the one kept before."""
    kept = [widths[0]]
    for gpus in widths:
        if gpus >= kept[-1] * 2 ** (1 / CANDIDATES_PER_DOUBLING):
            kept.append(gpus)
    return kept
