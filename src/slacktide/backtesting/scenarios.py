"""Futures that a market may have from now on, drawn from the model that its past taught."""

from __future__ import annotations

import math

import numpy as np

from slacktide.arrays import Floats, Ints
from slacktide.forecast import markov
from slacktide.forecast.base import clock, hour_of_day
from slacktide.market.base import Pool
from slacktide.market.tape import Past, first_hours
from slacktide.policy.stochastic_horizon import levels_of, model_of
from slacktide.solve.slotted import deadline_slots
from slacktide.types import Job

PAST_HOURS = 14 * 24.0
"""How much of the real past a scenario carries with it, for policies that look back."""


def scenarios(
    job: Job, pool: Pool, neighbours: tuple[Pool, ...], *, paths: int, seed: int = 0
) -> tuple[list[Pool], int]:
    """Return pools whose past is real and whose future is drawn, and the slot in which the future begins.

    The future begins with the last slot of the pool, whose quote is known, and covers the deadline.
    """
    levels = levels_of(job, pool.slot_hours)
    at = len(pool) - 1
    others = [Past.of(other, first_hours(other, pool, 0)) for other in neighbours]
    model = model_of(levels, Past.of(pool), others, at)
    slots = deadline_slots(job, pool.slot_hours)
    hours = clock(hour_of_day(pool, at), slots, pool.slot_hours)
    level, price = markov.simulate(
        levels, model, _now(levels, model, pool, at), markov.block_of(hours), paths=paths, seed=seed
    )
    first = max(0, at - math.ceil(PAST_HOURS / pool.slot_hours))
    usable = np.array(levels.usable)
    drawn = [
        _continued(pool, first, at, usable[level[path]], model.prices[price[path]]) for path in range(paths)
    ]
    return drawn, at - first


def _now(levels: markov.Levels, model: markov.Model, pool: Pool, at: int) -> markov.Now:
    level = levels.level(pool.spot_gpus[: at + 1])
    usd = pool.spot_usd_per_gpu_hour[at]
    return markov.Now(int(level[-1]), int(markov.ages(level)[-1]), int(markov.price_level(model.prices, usd)))


def _continued(pool: Pool, first: int, at: int, gpus: Ints, usd: Floats) -> Pool:
    """Return the real past from `first` up to `at`, then a drawn future; the present quote stays real."""
    spot_gpus = np.concatenate([pool.spot_gpus[first : at + 1], gpus[1:]])
    spot_usd = np.concatenate([pool.spot_usd_per_gpu_hour[first : at + 1], usd[1:]])
    last = pool.on_demand_usd_per_gpu_hour[at]
    on_demand = np.append(pool.on_demand_usd_per_gpu_hour[first : at + 1], np.full(len(gpus) - 1, last))
    return Pool(pool.name, pool.slot_hours, spot_usd, on_demand, spot_gpus, pool.time(first))
