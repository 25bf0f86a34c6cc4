"""Where a job that may move would be, and what moving may save against staying in one pool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.results.plan import Moving, MovingSaving, PoolAhead
from slacktide.results.run import Run
from slacktide.results.runs import column
from slacktide.simulation.plan.outcomes import TriedPolicy, standard_error
from slacktide.simulation.pool_options import PoolOptions


def moving(
    options: PoolOptions, tried: Sequence[TriedPolicy], stays: Sequence[TriedPolicy], best: TriedPolicy
) -> Moving:
    """Return where the first policy that moves would be, or the clairvoyant, and what moving may save."""
    first = next((one for one in tried if not one.pool), best)
    held = _held(options, first.runs)
    return Moving(
        pools=tuple(_ahead(options, at, stay, held) for at, stay in enumerate(stays)),
        saving=_saving(tried),
        held=tuple((name, tuple(shares.tolist())) for name, shares in held.items()),
        slot_hours=options.slot_hours,
    )


def _ahead(options: PoolOptions, at: int, stay: TriedPolicy, held: Mapping[str, Floats]) -> PoolAhead:
    pool = options.pools[at]
    quote, (late, usd) = pool.quote(len(pool) - 1), stay.cost
    total = sum(float(shares.sum()) for shares in held.values())
    share = float(held[pool.name].sum()) / total if total > 0 else 0.0
    stays = usd if late <= -1.0 else None
    return PoolAhead(pool.name, quote.spot_gpus, quote.spot_usd_per_gpu_hour, stays, share)


def _held(options: PoolOptions, runs: Sequence[Run]) -> dict[str, Floats]:
    """Return for each pool the share of futures in which GPUs are held there, by slot until the deadline."""
    slot_hours = options.slot_hours
    slots = math.ceil(options.job.deadline_hours / slot_hours - 1e-6)
    held = {pool.name: np.zeros(slots) for pool in options.pools}
    for one in runs:
        for record in one.slots[:slots]:
            stretch = record.lived.stretch
            if stretch.gpus:
                held[stretch.pool][record.slot] += stretch.held_hours / slot_hours / len(runs)
    return held


def _saving(tried: Sequence[TriedPolicy]) -> MovingSaving | None:
    """Compare the best that moves with the best that stays, future by future."""
    moved, stayed = [one for one in tried if not one.pool], [one for one in tried if one.pool]
    if not moved or not stayed:
        return None
    first, other = min(moved, key=lambda one: one.cost), min(stayed, key=lambda one: one.cost)
    less = column(other.runs, "cost_usd") - column(first.runs, "cost_usd")
    moving = float(np.mean(column(first.runs, "moves") > 0))
    return MovingSaving(float(np.mean(less)), standard_error(less), other.policy, other.pool, moving)
