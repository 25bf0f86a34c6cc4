"""Futures that a market may have from now on, drawn from the model that its past taught."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.types import UNLIMITED_GPUS, Job
from slacktide.market.base import Pool
from slacktide.market.forecast import markov
from slacktide.market.forecast.base import clock, hour_of_day
from slacktide.market.tape import Past, first_hours
from slacktide.policies.stochastic_horizon import levels_of
from slacktide.solvers.slotted import deadline_slots

MODELS = 10
"""Models from which futures are drawn, each learned from the same history weighted anew."""
PAST_HOURS = 60 * 24.0
"""How much of the real past a scenario carries with it, for policies that look back; its prices move as they
did in that time."""


def scenarios(
    job: Job, pool: Pool, neighbours: tuple[Pool, ...], *, paths: int, seed: int = 0
) -> tuple[list[Pool], int]:
    """Return pools whose past is real and whose future is drawn, and the slot in which the future begins.

    The future begins with the last slot of the pool, whose quote is known, and covers the deadline.
    """
    levels = levels_of(job, pool.slot_hours)
    at = len(pool) - 1
    slots = deadline_slots(job, pool.slot_hours)
    blocks = markov.block_of(clock(hour_of_day(pool, at), slots, pool.slot_hours))
    first = max(0, at - math.ceil(PAST_HOURS / pool.slot_hours))
    usable = np.array(levels.usable)
    rng = np.random.default_rng([seed, 1])
    prices = iter(_price_paths(pool.spot_usd_per_gpu_hour[first : at + 1], slots, paths, seed))
    history, now = _history(levels, pool, neighbours), _now(levels, pool, at)
    drawn: list[Pool] = []
    for number, few in enumerate(np.array_split(np.arange(paths), min(MODELS, paths))):
        model = history.resampled(rng)
        level = markov.simulate(levels, model, now, blocks, paths=len(few), seed=seed * MODELS + number)
        drawn += [continued(pool, first, at, usable[path], next(prices)) for path in level]
    return drawn, at - first


class _History(NamedTuple):
    """What is known of a pool and its neighbours, from which models are learned that may be true."""

    levels: markov.StateCuts
    pools: tuple[tuple[Ints, Floats], ...]
    """Of each pool, its own first: the spot GPUs offered, and the hours of the day."""
    slot_hours: float
    prices: Floats
    usd: float
    likeness: float

    def resampled(self, rng: np.random.Generator) -> markov.Model:
        """Learn from history with days weighted at random: the Bayesian bootstrap.

        One model, taken for certain, would make futures too much alike: how long spells last is known from
        few of them. Weights go by whole days, since the slots of a day are no independent witnesses.
        """
        counts = [
            markov.count(self.levels, gpus, hours, self._weights(len(gpus), rng))
            for gpus, hours in self.pools
        ]
        return markov.fit(
            self.levels, counts[0], markov.together(counts),
            self.prices, self.usd, self.slot_hours, self.likeness,
        )  # fmt: skip

    def _weights(self, slots: int, rng: np.random.Generator) -> Floats:
        day = (np.arange(slots) * (self.slot_hours / 24.0)).astype(np.int64)
        weights = rng.exponential(size=int(day[-1]) + 1 if slots else 1)
        of_slot: Floats = (weights / weights.mean())[day]
        return of_slot


def _history(levels: markov.StateCuts, pool: Pool, neighbours: tuple[Pool, ...]) -> _History:
    own, at = Past.of(pool), len(pool) - 1
    others = [Past.of(other, first_hours(other, pool, 0)) for other in neighbours]
    now = own.begin_hours(at)
    alike = [other for other in others if abs(other.slot_hours / own.slot_hours - 1.0) < 1e-6]
    until = [(own, at), *((other, other.slots_before(now)) for other in alike)]
    pools = tuple(
        (past.spot_gpus[:slots], clock(hour_of_day(past), slots, past.slot_hours)) for past, slots in until
    )
    week = math.ceil(168 / own.slot_hours)
    prices = own.spot_usd_per_gpu_hour[max(0, at - week) : at]
    counts = [markov.count(levels, gpus, hours) for gpus, hours in pools]
    usd = own[at].spot_usd_per_gpu_hour
    return _History(levels, pools, own.slot_hours, prices, usd, markov.likeness(counts))


def _price_paths(past: Floats, slots: int, paths: int, seed: int) -> list[Floats]:
    """Return prices from the last one of the past on, each path moving as the past did from some slot on.

    A price that stands still would make all bills of jobs that run on spot alone the same, which no bill
    is. A window begins where the price was about as far from the usual as it is now, so that a price that
    has jumped comes down again.
    """
    levels = markov.price_levels(past[:-1], float(past[-1]))
    begins = np.arange(max(0, len(past) - slots + 1))
    alike = begins[markov.price_level(levels, past[begins]) == markov.price_level(levels, past[-1])]
    if not len(alike):
        return [np.full(slots, past[-1])] * paths
    chosen = np.random.default_rng([seed, 2]).choice(alike, paths)
    windows = (past[begin : begin + slots] for begin in chosen.tolist())
    return [window * (past[-1] / window[0]) if window[0] > 0 else window for window in windows]


def _now(levels: markov.StateCuts, pool: Pool, at: int) -> markov.Now:
    level = levels.level(pool.spot_gpus[: at + 1])
    return markov.Now(int(level[-1]), int(markov.ages(level)[-1]))


def continued(pool: Pool, first: int, at: int, gpus: Ints, usd: Floats) -> Pool:
    """Return the real past from `first` up to `at`, then a drawn future; the present quote stays real.

    On-demand GPUs are taken to be there in the future.
    """
    spot_gpus = np.concatenate([pool.spot_gpus[first : at + 1], gpus[1:]])
    spot_usd = np.concatenate([pool.spot_usd_per_gpu_hour[first : at + 1], usd[1:]])
    last = pool.on_demand_usd_per_gpu_hour[at]
    on_demand = np.append(pool.on_demand_usd_per_gpu_hour[first : at + 1], np.full(len(gpus) - 1, last))
    stock = np.append(pool.stock(first, at + 1), np.full(len(gpus) - 1, UNLIMITED_GPUS))
    return Pool(pool.name, pool.slot_hours, spot_usd, on_demand, spot_gpus, pool.time(first), pool.gpu, stock)
