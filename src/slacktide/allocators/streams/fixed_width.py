"""The optimum for a stream on an average budget, as an allocator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slacktide.allocators.base import SettledWays, SettledWidths, allocators
from slacktide.budget.fleet import Fleet
from slacktide.budget.widths import FleetPlan, optimal_widths
from slacktide.core.errors import InputError


@allocators.register
@dataclass(frozen=True, slots=True)
class FixedWidth:
    """Give each class the width that is best for the budget: the optimum where all is known.

    Every job starts at once and keeps its width, phase by phase; no job queues (Li et al. 2024). The class
    that lies between two ways is mixed by largest remainder.
    """

    budget_gpus: float | None = None  # GPUs on average; None takes the fleet's budget

    def begin(self, fleet: Fleet) -> SettledWidths:
        """Solve for the widths. Raises InfeasibleError when the budget is too small for the work."""
        budget = fleet.budget_gpus if self.budget_gpus is None else self.budget_gpus
        if not math.isfinite(budget):
            raise InputError("fixed-width must be given a budget, got none; set budget_gpus")
        return SettledWidths(ways_of(optimal_widths(fleet.classes, budget)))


def ways_of(plan: FleetPlan) -> SettledWays:
    """Write a plan as tables of widths."""
    paths = [one.paths for one in plan.classes]
    return SettledWays(
        narrow=np.array([int(width) for each in paths for width in each[0].widths], dtype=np.int64),
        wide=np.array([int(width) for each in paths for width in each[-1].widths], dtype=np.int64),
        wide_share=np.array([each[-1].share if len(each) > 1 else 0.0 for each in paths]),
    )
