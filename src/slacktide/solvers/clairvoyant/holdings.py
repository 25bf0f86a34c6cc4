"""Which holdings the clairvoyant of a wide job tries: all of them, or a selection if there are too many.

A job of up to n GPUs has about n²/2 holdings: 45 for eight GPUs, 5,151 for a hundred, 501,501 for a thousand.
Where trying all would take too long, spot and on-demand GPUs are counted in *levels*: a few numbers of GPUs,
close together where they are small and wider apart, in proportion, where they are large; and whatever then
completes the widest and the fastest width. A plan made of them is a real plan of the job and its cost is
true, but a better one may lie between the levels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Ints
from slacktide.core.types import Job

LEVELS = (96, 64, 48, 36, 27, 20, 15, 11, 8, 6, 4)
"""Numbers of levels of spot GPUs, the finest first; the first that fits is taken."""


class HoldingPairs(NamedTuple):
    """Numbered pairs of spot and on-demand GPUs; number 0 is none of either."""

    spot: Ints
    on_demand: Ints


class GpuLevels(NamedTuple):
    """The numbers of spot and of on-demand GPUs that occur in holdings, each ascending from 0."""

    spot: Ints
    on_demand: Ints
    of_spot: Ints  # of_spot[h], of_on_demand[h]: which of the levels holding h has
    of_on_demand: Ints
    below: Ints  # below[n]: the highest spot level within n GPUs


def count_all(job: Job, most_spot_gpus: int) -> int:
    """Return how many holdings a job may have if at most this many spot GPUs are ever offered."""
    return 1 + sum(min(width, most_spot_gpus) + 1 for width in job.widths)


def all_holdings(job: Job, most_spot_gpus: int) -> HoldingPairs:
    """Return every holding that a job may have if at most this many spot GPUs are ever offered."""
    totals = (0, *job.widths)
    spots = [np.arange(min(total, most_spot_gpus) + 1, dtype=np.int64) for total in totals]
    width = np.repeat(np.array(totals, dtype=np.int64), [len(each) for each in spots])
    spot = np.concatenate(spots)
    return HoldingPairs(spot, width - spot)


def holdings_within(job: Job, fastest: int, most_spot_gpus: int, most: int) -> HoldingPairs:
    """Return all holdings of a job if they are at most `most`, else those of as many levels as fit."""
    if count_all(job, most_spot_gpus) <= most:
        return all_holdings(job, most_spot_gpus)
    for levels in LEVELS:
        some = some_holdings(job, fastest, most_spot_gpus, levels)
        if len(some.spot) <= most:
            break
    return some


def some_holdings(job: Job, fastest: int, most_spot_gpus: int, levels: int) -> HoldingPairs:
    """Return holdings made of about this many levels of spot GPUs and some more of on-demand GPUs."""
    widest, allowed = job.max_gpus, set(job.widths)
    spots = _spread(min(widest, most_spot_gpus), levels)
    ends = allowed if len(job.widths) <= levels else {job.widths[0], fastest, widest}
    bases = {*_spread(widest, levels), *(width - spot for width in ends for spot in spots)}
    pairs = {(spot, base) for spot in spots for base in bases if base >= 0 and spot + base in allowed}
    pairs |= {(width, 0) for width in ends if width <= most_spot_gpus} | {(0, 0)}
    ordered = sorted(pairs, key=lambda pair: (sum(pair), pair[0]))
    spot, on_demand = np.array(ordered, dtype=np.int64).T
    return HoldingPairs(np.ascontiguousarray(spot), np.ascontiguousarray(on_demand))


def levels_of(holdings: HoldingPairs, widest: int) -> GpuLevels:
    """Return the levels that occur in holdings of up to this many GPUs."""
    spot, of_spot = np.unique(holdings.spot, return_inverse=True)
    on_demand, of_on_demand = np.unique(holdings.on_demand, return_inverse=True)
    below = np.searchsorted(spot, np.arange(widest + 1), side="right") - 1
    return GpuLevels(spot, on_demand, *(each.astype(np.int64) for each in (of_spot, of_on_demand, below)))


def _spread(most: int, count: int) -> Iterable[int]:
    """Return 0 and about `count` whole numbers up to `most`, in about a geometric series."""
    if most <= count:
        return range(most + 1)
    return {0, *np.geomspace(1, most, count).round().astype(int).tolist()}
