"""The policies that are compared, each at many bills: each has a setting that changes its bill."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from slacktide.allocators.base import SettledWidths
from slacktide.allocators.streams.fixed_width import FixedWidth, ways_of
from slacktide.allocators.streams.one_width import OneWidth
from slacktide.allocators.streams.online_width import OnlineWidth
from slacktide.allocators.view import AnyAllocator
from slacktide.budget.classes import JobClass
from slacktide.budget.widths import least_budget_gpus, optimal_widths
from slacktide_papers.baselines.efficiency_band import EfficiencyBand
from slacktide_papers.baselines.equi import Equi
from slacktide_papers.baselines.fifo import Fifo
from slacktide_papers.baselines.srpt import Srpt
from slacktide_papers.budget import rows
from slacktide_papers.budget.cases import Case, Size

ROUND_HOURS, SLOW_ROUND_HOURS = 1 / 60, 10 / 60
"""How often the efficiency band reallocates at most: once a minute, as Pollux does, or less often."""
LEAST_OVER, MOST_OVER = 0.005, 4.0
"""How far budgets of the optimum lie above the least on which the work gets done, as a share of it."""


class Try(NamedTuple):
    """One policy at one setting."""

    knob: str
    policy: AnyAllocator
    asked_gpus: float = math.nan


class Family(NamedTuple):
    """One kind of policy at many settings; of each group of tries only the best is shown."""

    series: str
    groups: tuple[tuple[Try, ...], ...]


def families(case: Case, size: Size) -> list[Family]:
    """Return the optimum and its baselines."""
    clusters = [fifo(case, size), equi(case, size), srpt(case, size)]
    return [fixed_width(case, size), one_width(case, size), band(size), slow_band(size), *clusters]


def with_learners(case: Case, size: Size) -> list[Family]:
    """Return the same, and the policies that do not know the rates."""
    found = [*families(case, size), online_width(case, size)]
    return [*found, other_rates(case, size)] if case.elsewhere else found


def fixed_width(case: Case, size: Size) -> Family:
    """The optimum, given the rates."""
    return _family(
        rows.FIXED, [Try(f"{b:.4g} GPUs", FixedWidth(b), b) for b in budgets_of(case.classes, size.budgets)]
    )


def other_rates(case: Case, size: Size) -> Family:
    """The optimum, given the rates of another stream."""
    return _family(
        rows.OTHER_RATES,
        [
            Try(f"{b:.4g} GPUs", SettledWidths(ways_of(optimal_widths(case.elsewhere, b))), b)
            for b in budgets_of(case.elsewhere, size.budgets)
        ],
    )


def online_width(case: Case, size: Size) -> Family:
    """The optimum, given nothing but the budget."""
    budgets = budgets_of(case.classes, size.budgets)[1::2]
    return _family(rows.ONLINE, [Try(f"{b:.4g} GPUs", OnlineWidth(b, speedups="learn"), b) for b in budgets])


def one_width(case: Case, size: Size) -> Family:
    """Every width for all, up to the widest that any class may have."""
    widest = max(one.widths[-1] for one in case.classes)
    return _family(
        rows.ONE_WIDTH, [Try(f"{gpus} GPUs", OneWidth(gpus)) for gpus in size.widths if gpus <= widest]
    )


def band(size: Size) -> Family:
    """Autoscaling by efficiency, once a minute at most."""
    return _band(rows.BAND, size, ROUND_HOURS)


def slow_band(size: Size) -> Family:
    """The same, every ten minutes: fewer restarts, slower to follow."""
    return _band(rows.SLOW_BAND, size, SLOW_ROUND_HOURS)


def _band(series: str, size: Size, round_hours: float) -> Family:
    return _family(
        series,
        [Try(f"efficiency {e:g}", EfficiencyBand(e, round_hours=round_hours)) for e in size.efficiencies],
    )


def equi(case: Case, size: Size) -> Family:
    """Equal shares of clusters of many sizes."""
    return _family(rows.EQUI, [Try(f"cluster of {n}", Equi(n)) for n in clusters_of(case, size)])


def fifo(case: Case, size: Size) -> Family:
    """First come, first served, on clusters of many sizes, each with its best width."""
    return Family(
        rows.FIFO,
        tuple(
            tuple(Try(f"cluster of {n}, {k} each", Fifo(n, k)) for k in _stable_widths(case, size, n))
            for n in clusters_of(case, size)
        ),
    )


def srpt(case: Case, size: Size) -> Family:
    """Shortest first, with sizes known, on clusters of many sizes, each with its best width."""
    return Family(
        rows.SRPT,
        tuple(
            tuple(Try(f"cluster of {n}, {k} each", Srpt(n, k)) for k in _stable_widths(case, size, n))
            for n in clusters_of(case, size)
        ),
    )


def budgets_of(classes: tuple[JobClass, ...], count: int) -> list[float]:
    """Return budgets from hardly feasible to five times the least, dense where the curve is steep."""
    least = least_budget_gpus(classes)
    found: list[float] = (least * (1.0 + np.geomspace(LEAST_OVER, MOST_OVER, count))).tolist()
    return found


def clusters_of(case: Case, size: Size) -> list[int]:
    """Return sizes of clusters that can do the work that comes."""
    return sorted({math.ceil(multiple * case.load_gpus) for multiple in size.clusters})


def _stable_widths(case: Case, size: Size, cluster_gpus: int) -> list[int]:
    """Return the widths at which a cluster of this size keeps up with what arrives; at least one GPU."""
    stages = case.fleet.stages
    found = [1]
    for gpus in (gpus for gpus in size.cluster_widths if 1 < gpus <= cluster_gpus):
        width = stages.narrower[:, min(gpus, stages.narrower.shape[1] - 1)]
        speed = stages.rate[np.arange(len(width)), width]
        held = (
            one.arrivals_per_hour * k * (one.restart_hours + one.work_gpu_hours / s)
            for one, k, s in zip(case.classes, width, speed, strict=True)
        )
        if sum(held) < cluster_gpus:
            found.append(gpus)
    return found


def _family(series: str, tries: Iterable[Try]) -> Family:
    return Family(series, tuple((one,) for one in tries))
