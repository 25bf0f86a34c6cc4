"""What is tuned of each allocator until it spends a given amount: a knob on a stream, a grid on a market.

An allocator that is in neither table keeps to the budget by itself, or runs as it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.streams.fixed_width import FixedWidth
from slacktide.allocators.streams.one_width import OneWidth
from slacktide.allocators.view import AnyAllocator
from slacktide.budget.fleet import Fleet
from slacktide.budget.widths import least_budget_gpus


class Knob(NamedTuple):
    """A family of allocators with one number: the greater it is, the more is spent."""

    make: Callable[[float], AnyAllocator]
    low: float
    high: float
    whole: bool  # whether the number must be whole


def knobs_of(name: str, fleet: Fleet) -> list[Knob]:
    """Return the variants of an allocator, each with one knob; none where it has no knob."""
    find = KNOBS.get(name) or getattr(allocators.get(name), "knobs", None)
    return find(fleet) if find else []


def _fixed_width(fleet: Fleet) -> list[Knob]:
    least = least_budget_gpus(fleet.classes) * (1 + 1e-9)
    most = max(_most_gpus(fleet), 2 * least)
    return [Knob(lambda budget: FixedWidth(float(budget)), least, most, False)]


def _one_width(fleet: Fleet) -> list[Knob]:
    return [Knob(lambda gpus: OneWidth(int(gpus)), 1, _widest(fleet), True)]


KNOBS: Mapping[str, Callable[[Fleet], list[Knob]]] = {
    "fixed-width": _fixed_width,
    "one-width": _one_width,
}
"""Knobs of the allocators here; one of another package may have a method `knobs(fleet)`."""


MARKET_SETTINGS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "patient-spot": {"width": (1, 2, 4, 8), "wait_hours": (0.0, 0.5, 1.0, 2.0, 4.0, 12.0)},
    "each-alone": {"width": (1, 2, 4, 8)},
    "earliest-deadline": {"width": (1, 2, 4, 8)},
    "on-demand-widths": {"usd_per_job_hour": (1.0, 3.0, 10.0, 30.0, 100.0)},
}
"""Allocators that do not look at the budget, and the settings that are tried of each."""


def settings_of(name: str) -> list[dict[str, Any]]:
    """Return all settings of an allocator that is tuned; none for one that is not."""
    ranges = MARKET_SETTINGS.get(name, {})
    return [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())] if ranges else []


def _most_gpus(fleet: Fleet) -> float:
    """Return more GPUs on average than all jobs at their fastest take."""
    stages = fleet.stages
    fastest = np.argmax(stages.rate, axis=1)
    arrivals = np.repeat([one.arrivals_per_hour for one in fleet.classes], np.diff(stages.first))
    hours = stages.work_gpu_hours / stages.rate[np.arange(len(fastest)), fastest] + stages.restart_hours
    return float((arrivals * fastest * hours).sum())


def _widest(fleet: Fleet) -> int:
    return max(one.widths[-1] for one in fleet.classes)


def cluster_sizes(fleet: Fleet) -> tuple[int, int]:
    """Return the least and the greatest size of a cluster worth trying."""
    least = max(one.widths[0] for one in fleet.classes)
    return least, max(least + 1, math.ceil(8 * fleet.budget_gpus))


def doubled_widths(fleet: Fleet) -> list[int]:
    """Return the widths to try for all jobs: doublings, as far as a budget's share may go."""
    most = min(_widest(fleet), max(1, int(fleet.budget_gpus)))
    return [2**power for power in range(int(math.log2(most)) + 1)]
