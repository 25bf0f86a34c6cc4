"""Sharing GPUs among jobs so that each goes where it speeds up most; sizes of clusters and widths to try."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.core.speedup import concave_hull


class Steps(NamedTuple):
    """Every step from a width to the next wider one, the most speedup per GPU first.

    Only widths on the upper concave hull are stepped on, so the steps of a stage go from narrow to wide.
    """

    stage: Ints
    before: Ints
    after: Ints
    least: Ints  # [stage]: the width with which a job begins
    rate: Floats  # [stage, width]: progress per hour


def steps_of(fleet: Fleet) -> Steps:
    """Sort the steps of all stages of a fleet."""
    tables = fleet.stages
    rows = []
    for stage in range(len(tables.rate)):
        widths = _on_hull(np.flatnonzero(tables.rate[stage]), tables.rate[stage])
        gain = np.diff(tables.rate[stage, widths]) / np.diff(widths)
        rows.append(np.column_stack((np.full(len(gain), stage), widths[:-1], widths[1:], gain))[gain > 0])
    table = np.concatenate(rows)
    # Rounded so that a straight stretch keeps its order; the sort is stable.
    order = np.argsort(-np.round(table[:, 3], 12), kind="stable")
    stages, before, after = table[order, :3].astype(np.int64).T.copy()
    return Steps(stages, before, after, tables.least, tables.rate)


def _on_hull(widths: Ints, rate: Floats) -> Ints:
    """Keep the widths whose rate lies on the hull, those on its straight stretches included."""
    points = tuple(zip(widths.astype(float).tolist(), rate[widths].tolist(), strict=True))
    corners = np.array(concave_hull(points))
    reached = np.interp(widths, corners[:, 0], corners[:, 1])
    kept: Ints = widths[rate[widths] >= reached * (1.0 - 1e-9)]
    return kept


@compilable
def share_by_gain(stage: Ints, steps: Steps, gpus: int, widths: Ints) -> None:
    """Write into `widths` the shares of some GPUs that make the sum of speedups greatest.

    Every job gets its least width first, in the order of arrival; then the best steps are taken. Of equal
    jobs the earlier ones get what is left over.
    """
    counts = np.zeros(len(steps.least), dtype=np.int64)
    for job in range(len(stage)):
        if steps.least[stage[job]] <= gpus:
            gpus -= steps.least[stage[job]]
            widths[job] = steps.least[stage[job]]
            counts[stage[job]] += 1
    reached = steps.least.copy()
    for step in range(len(steps.stage)):
        at = steps.stage[step]
        size = steps.after[step] - steps.before[step]
        if counts[at] == 0:
            continue
        if counts[at] * size > gpus:
            # The first step that only some jobs of a stage can take, for lack of GPUs.
            left = gpus // size
            for job in range(len(stage)):
                if stage[job] == at and widths[job] > 0 and left > 0:
                    widths[job] = -steps.after[step]
                    left -= 1
            break
        gpus -= counts[at] * size
        reached[at] = steps.after[step]
    for job in range(len(stage)):
        if widths[job] > 0:
            widths[job] = reached[stage[job]]
        elif widths[job] < 0:
            widths[job] = -widths[job]


@compilable
def size_for_efficiency(stage: Ints, steps: Steps, efficiency: float) -> int:
    """Return the most GPUs on which the sum of speedups is still this share of the GPUs."""
    counts = np.zeros(len(steps.least), dtype=np.int64)
    gpus = 0
    speed = 0.0
    for job in range(len(stage)):
        counts[stage[job]] += 1
        gpus += steps.least[stage[job]]
        speed += steps.rate[stage[job], steps.least[stage[job]]]
    for step in range(len(steps.stage)):
        at = steps.stage[step]
        if counts[at] == 0:
            continue
        size = steps.after[step] - steps.before[step]
        gain = steps.rate[at, steps.after[step]] - steps.rate[at, steps.before[step]]
        if gain < efficiency * size and speed + counts[at] * gain < efficiency * (gpus + counts[at] * size):
            # speed + n gain = efficiency (gpus + n size), for as many of them as can
            spare = (speed - efficiency * gpus) / (efficiency * size - gain)
            return int(gpus + size * max(0, int(spare)))
        gpus += counts[at] * size
        speed += counts[at] * gain
    return gpus


def cluster_sizes(fleet: Fleet) -> tuple[int, int]:
    """Return the least and the greatest size of a cluster worth trying."""
    least = max(one.widths[0] for one in fleet.classes)
    return least, max(least + 1, math.ceil(8 * fleet.budget_gpus))


def doubled_widths(fleet: Fleet) -> list[int]:
    """Return the widths to try for all jobs: doublings, as far as a budget's share may go."""
    widest = max(one.widths[-1] for one in fleet.classes)
    most = min(widest, max(1, int(fleet.budget_gpus)))
    return [2**power for power in range(int(math.log2(most)) + 1)]
