"""What a learner looked like as it learned: enough points for a picture, never more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats

MOST_POINTS = 400  # when there are more, every second one is dropped
WORTH_DRAWING = 0.01  # weights below this are not kept: a hundred of them would not be seen


class Leader(NamedTuple):
    """An arm that came to have the greatest weight, and after how many jobs."""

    jobs: int
    arm: str


class RegretPoint(NamedTuple):
    """The learner after a number of jobs."""

    jobs: int
    regret: float
    bound: float
    weights: dict[int, float]  # by place of the arm, where worth drawing


class Trail:
    """Points in time, evenly thinned as they become many."""

    def __init__(self, points: list[RegretPoint] | None = None, stride: int = 1) -> None:
        self.points = [] if points is None else points
        self.stride = stride

    def add(self, jobs: int, regret: float, bound: float, weights: Floats) -> None:
        """Keep a point, unless it falls between those that are kept."""
        if jobs % self.stride:
            return
        seen = np.flatnonzero(weights >= WORTH_DRAWING)
        self.points.append(RegretPoint(jobs, regret, bound, {int(arm): float(weights[arm]) for arm in seen}))
        if len(self.points) > MOST_POINTS:
            self.stride *= 2
            self.points = [point for point in self.points if point.jobs % self.stride == 0]
