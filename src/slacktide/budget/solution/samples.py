"""The frontier among real widths, sampled at prices in equal ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.solution.continuous import real_choices_of
from slacktide.budget.solution.curves import TIE_SHARE
from slacktide.budget.solution.search import find_edge, polished
from slacktide.budget.solution.width_options import Total, WidthChoice, WidthOptions
from slacktide.core.arrays import Floats

SAMPLES = 256
"""Prices at which a frontier among real widths is sampled."""
PRICE_RATIO = 4.0
PRICE_STEPS = 64
"""How far from the mean price samples are sought: by this ratio at most so often."""


@dataclass(frozen=True, slots=True, eq=False)
class FrontierSamples:
    """Optima among real widths at falling prices."""

    choices: WidthOptions
    totals: tuple[Total, ...]
    price: Floats
    """Jobs fewer by the next GPU, by sample."""

    @classmethod
    def of(cls, classes: Sequence[JobClass]) -> FrontierSamples:
        """Sample from the price above which nothing changes to that below which nothing does."""
        choices = real_choices_of(classes)
        ends = choices.cheapest(0.0, 1.0), choices.cheapest(1.0, 0.0)
        if ends[1].gpus <= ends[0].gpus:
            return cls(choices, ends[:1], np.zeros(1))
        mean = (ends[0].jobs - ends[1].jobs) / (ends[1].gpus - ends[0].gpus)
        high = _until(choices, mean, PRICE_RATIO, ends[0])
        low = _until(choices, mean, 1.0 / PRICE_RATIO, ends[1])
        prices = np.geomspace(high, low, SAMPLES)
        sampled = [ends[0], *(choices.cheapest(1.0, float(price)) for price in prices), ends[1]]
        kept = [0]
        for index, total in enumerate(sampled):
            if total.gpus > sampled[kept[-1]].gpus * (1.0 + TIE_SHARE):
                kept.append(index)
        # What stays best over a range of prices counts at the least of them: that is what the next GPU buys.
        until = [index - 1 for index in kept[1:]]
        last = [*np.concatenate((prices[:1], prices))[until], 0.0]
        return cls(choices, tuple(sampled[index] for index in kept), np.array(last))

    def choice(self, index: int) -> WidthChoice:
        """Return the choice of a sample."""
        return self.totals[index].choice

    def budget_for(self, jobs: float) -> float:
        """Return the least GPUs with which this many jobs are present on average."""

        def is_low(total: Total) -> bool:
            return total.jobs >= jobs

        edge = polished(self.choices, find_edge(self.choices, is_low), is_low)
        fewer = edge.low.jobs - edge.high.jobs
        share = (edge.low.jobs - jobs) / fewer if fewer > 0 else 0.0
        return edge.low.gpus + share * (edge.high.gpus - edge.low.gpus)


def _until(choices: WidthOptions, price: float, ratio: float, end: Total) -> float:
    """Move a price until the choice is as at the end of all prices."""
    for _ in range(PRICE_STEPS):
        if math.isclose(choices.cheapest(1.0, price).gpus, end.gpus, rel_tol=TIE_SHARE):
            break
        price *= ratio
    return price
