"""Simulated futures of a market, each one after the real past.

The future of one pool is drawn from a model of its past. Several pools go on together, because when one loses
its spot, others of its region often do: a window of the past is taken for all pools at the same time, with
windows that begin like the present first. Where the common past is too short, each has a model of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.types import Job
from slacktide.core.units import format_count
from slacktide.market.base import Pool
from slacktide.market.forecast import markov
from slacktide.market.forecast.base import clock, hour_of_day
from slacktide.market.tape import Past, first_hours
from slacktide.policies.stochastic_horizon import levels_of
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.slotted import deadline_slots

MODELS = 10  # models from which futures are drawn, each learned from the same history with other weights
PAST_HOURS = 60 * 24.0
"""How much of the real past a future begins with, for policies that look back; future prices move as prices
did in that time."""
LEAST_WINDOWS = 2.0
"""How many deadlines long the common past of all pools must be for windows of it to be used."""
ALIKE_SHARE = 1 / 3  # futures are chosen from this share of all windows: those most like the present


class PoolFutures(NamedTuple):
    """A job with its pools in several futures; in each, all pools have a real past and a drawn future."""

    options: list[PoolOptions]  # the job with its pools as they go on in each future
    slots: int  # how long the future is, in every pool; the quote of its first slot is known
    assumption: str

    @property
    def start(self) -> int:
        return len(self.options[0].pools[0]) - self.slots


def futures_of_pool(
    job: Job, pool: Pool, neighbours: tuple[Pool, ...], *, paths: int, seed: int = 0
) -> PoolFutures:
    """Draw futures for a job that stays in one pool, whose record ends with the present slot."""
    drawn = _scenarios(job, pool, neighbours, paths=paths, seed=seed)
    slots = deadline_slots(job, pool.slot_hours)
    options = [PoolOptions.single(job, future) for future in drawn]
    return PoolFutures(options, slots, learned_from(pool, neighbours))


def learned_from(place: Pool, neighbours: Sequence[Pool]) -> str:
    """Describe the history that drawn futures were learned from."""
    others = f"{len(neighbours)} other pool{'s' * (len(neighbours) > 1)}"
    pools = f"pool {place.name!r}" + (f" and {others}" if neighbours else "")
    more = f", {sum(other.hours for other in neighbours) / 24:.3g} days of the others'" if neighbours else ""
    return (
        f"futures go on as {pools} did up to {place.end:%Y-%m-%d %H:%M} UTC: "
        f"{place.hours / 24:.3g} days of its own history{more}"
    )


def futures_of_pools(options: PoolOptions, *, paths: int) -> PoolFutures:
    """Draw futures for pools whose records all end with the present slot."""
    slots = deadline_slots(options.job, options.pools[0].slot_hours)
    known = min(len(pool) for pool in options.pools)
    long = known >= LEAST_WINDOWS * slots
    drawn = _windows(options, slots, known, paths) if long else _models(options, paths)
    days = known * options.pools[0].slot_hours / 24
    futures = [PoolOptions(options.job, tuple(pools), options.places) for pools in drawn]
    worth = max(1, min(paths, known // slots))
    return PoolFutures(futures, slots, _joint(days, worth) if long else _apart(days))


def _joint(days: float, worth: int) -> str:
    return (
        f"futures are windows of the last {days:.3g} days, the same for all pools, so that pools go up and "
        "down together as they did; they begin like the present, as far as there are such windows, and may "
        f"overlap: they are worth at most {format_count(worth, 'independent one')}, and policies have "
        "learned from the same days"
    )


def _apart(days: float) -> str:
    return (
        f"the common past of all pools is {days:.3g} days, too short for windows of it: futures are drawn "
        "from a model of each pool, as if pools were independent of each other, which flatters moving"
    )


def _first(pool: Pool) -> int:
    """Return the first slot of the past that a future begins with."""
    return max(0, len(pool) - 1 - math.ceil(PAST_HOURS / pool.slot_hours))


def _windows(options: PoolOptions, slots: int, known: int, paths: int) -> list[list[Pool]]:
    """Return futures that repeat what all pools did after some slot of their common past."""
    begins = np.arange(known - slots + 1)
    unlike = np.zeros(len(begins), dtype=np.int64)
    for pool, job in zip(options.pools, options.places.jobs, strict=True):
        unlike += _unlike(pool, job.fastest_width, begins, known)
    few = max(paths, math.ceil(ALIKE_SHARE * len(begins)))
    alike = np.sort(begins[np.lexsort((-begins, unlike))[:few]])  # of windows equally alike, recent ones
    chosen = alike[np.round(np.linspace(0, len(alike) - 1, paths)).astype(np.int64)]
    return [
        [_went_on(pool, len(pool) - known + begin, slots) for pool in options.pools]
        for begin in chosen.tolist()
    ]


def _unlike(pool: Pool, width: int, begins: Ints, known: int) -> Ints:
    """Return for each window 1 if at its beginning the pool is up and now it is down, or the reverse."""
    up = pool.spot_gpus[len(pool) - known :] >= width
    return np.asarray(up[begins] != up[-1], dtype=np.int64)


def _went_on(pool: Pool, begin: int, slots: int) -> Pool:
    """Return a pool that repeats what it did from a slot on; prices are scaled to the present one."""
    usd: Floats = pool.spot_usd_per_gpu_hour[begin : begin + slots]
    moved = usd * (pool.spot_usd_per_gpu_hour[-1] / usd[0]) if usd[0] > 0 else usd
    return _continued(pool, pool.spot_gpus[begin : begin + slots], moved)


def _models(options: PoolOptions, paths: int) -> list[list[Pool]]:
    drawn = []
    for seed, (pool, job) in enumerate(zip(options.pools, options.places.jobs, strict=True)):
        others = tuple(other for other in options.pools if other is not pool)
        drawn.append(_scenarios(job, pool, others, paths=paths, seed=seed))
    return [list(pools) for pools in zip(*drawn, strict=True)]


def _scenarios(
    job: Job, pool: Pool, neighbours: tuple[Pool, ...], *, paths: int, seed: int = 0
) -> list[Pool]:
    """Return pools whose past is real and whose future is drawn.

    The future begins with the last slot of the pool, whose quote is known, and covers the deadline.
    """
    levels = levels_of(job, pool.slot_hours)
    slots = deadline_slots(job, pool.slot_hours)
    blocks = markov.block_of(clock(hour_of_day(pool, len(pool) - 1), slots, pool.slot_hours))
    usable = np.array(levels.usable)
    rng = np.random.default_rng([seed, 1])
    prices = iter(_price_paths(pool.spot_usd_per_gpu_hour[_first(pool) :], slots, paths, seed))
    others = [Past.of(other, first_hours(other, pool, 0)) for other in neighbours]
    history = markov.History.of(levels, Past.of(pool), others, len(pool) - 1)
    likeness, past = markov.likeness(history.counts()), levels.level(pool.spot_gpus)
    drawn: list[Pool] = []
    for number, few in enumerate(np.array_split(np.arange(paths), min(MODELS, paths))):
        model = _resampled(history, likeness, rng)
        level = markov.simulate(levels, model, past, blocks, paths=len(few), seed=seed * MODELS + number)
        drawn += [_continued(pool, usable[path], next(prices)) for path in level]
    return drawn


def _resampled(history: markov.History, likeness: float, rng: np.random.Generator) -> markov.Model:
    """Learn from history with days weighted at random: the Bayesian bootstrap.

    One model, taken as certain, would make futures too much alike: how long spells last is learned from only
    a few spells. Weights go by whole days, since the slots of a day are not independent.
    """
    counts = [
        markov.count(history.levels, gpus, hours, _weights(len(gpus), history.slot_hours, rng))
        for gpus, hours in history.pools
    ]
    return history.model(counts, likeness)


def _weights(slots: int, slot_hours: float, rng: np.random.Generator) -> Floats:
    day = (np.arange(slots) * (slot_hours / 24.0)).astype(np.int64)
    weights = rng.exponential(size=int(day[-1]) + 1 if slots else 1)
    of_slot: Floats = (weights / weights.mean())[day]
    return of_slot


def _price_paths(past: Floats, slots: int, paths: int, seed: int) -> list[Floats]:
    """Return prices from the last one of the past on, each path moving as the past did from some slot on.

    With a constant price all jobs that run on spot alone would cost the same, which is not realistic. A
    window begins where the price was about as far from the usual as it is now, so that a price that
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


def _continued(pool: Pool, gpus: Ints, usd: Floats) -> Pool:
    """Return the recent past of a pool, then a drawn future, which begins with the pool's present quote.

    On-demand GPUs are assumed to be available in the future.
    """
    first, ahead = _first(pool), len(gpus) - 1
    on_demand_usd = pool.on_demand_usd_per_gpu_hour
    spot_gpus = np.concatenate([pool.spot_gpus[first:], gpus[1:]])
    spot_usd = np.concatenate([pool.spot_usd_per_gpu_hour[first:], usd[1:]])
    on_demand = np.append(on_demand_usd[first:], np.full(ahead, on_demand_usd[-1]))
    stock = np.append(pool.stock(first, len(pool)), np.full(ahead, UNLIMITED_GPUS))
    return Pool(pool.name, pool.slot_hours, spot_usd, on_demand, spot_gpus, pool.time(first), pool.gpu, stock)
