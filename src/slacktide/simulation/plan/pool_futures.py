"""Futures of several pools at once: joint windows of their past, or a model of each where that is short.

Pools depend on each other: when one loses its spot, others of its region often do. A window of the past is
therefore taken for all pools at the same time. Windows that begin like the present come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.units import format_count
from slacktide.market.base import Pool
from slacktide.simulation.plan.scenarios import PAST_HOURS, continued, scenarios
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.slotted import deadline_slots

LEAST_WINDOWS = 2.0
"""How many deadlines long the common past of all pools must be for windows of it to be used."""
ALIKE_SHARE = 1 / 3
"""The share of all windows, those most like the present, among which some are taken."""


class PoolFutures(NamedTuple):
    """Pools whose past is real and whose future is drawn, the same way for all of them."""

    grounds: list[PoolOptions]
    slots: int
    """How long the future is, in every pool; the quote of its first slot is known."""
    assumption: str

    @property
    def start(self) -> int:
        """The slot of the first pool in which the future begins."""
        return len(self.grounds[0].pools[0]) - self.slots


def pool_futures(ground: PoolOptions, *, paths: int) -> PoolFutures:
    """Draw futures for pools that all end with the present slot."""
    slots = deadline_slots(ground.job, ground.pools[0].slot_hours)
    known = min(len(pool) for pool in ground.pools)
    long = known >= LEAST_WINDOWS * slots
    drawn = _windows(ground, slots, known, paths) if long else _models(ground, paths)
    days = known * ground.pools[0].slot_hours / 24
    grounds = [PoolOptions(ground.job, tuple(pools), ground.places) for pools in drawn]
    worth = max(1, min(paths, known // slots))
    return PoolFutures(grounds, slots, _joint(days, worth) if long else _apart(days))


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
    """Return the first slot of the past that a future carries with it."""
    return max(0, len(pool) - 1 - math.ceil(PAST_HOURS / pool.slot_hours))


def _windows(ground: PoolOptions, slots: int, known: int, paths: int) -> list[list[Pool]]:
    """Return futures that go on as all pools did from some slot of their common past on."""
    begins = np.arange(known - slots + 1)
    unlike = np.zeros(len(begins), dtype=np.int64)
    for pool, job in zip(ground.pools, ground.places.jobs, strict=True):
        unlike += _unlike(pool, job.fastest_width, begins, known)
    few = max(paths, math.ceil(ALIKE_SHARE * len(begins)))
    alike = np.sort(begins[np.lexsort((-begins, unlike))[:few]])  # of windows as much alike, recent ones
    chosen = alike[np.round(np.linspace(0, len(alike) - 1, paths)).astype(np.int64)]
    return [
        [_went_on(pool, len(pool) - known + begin, slots) for pool in ground.pools]
        for begin in chosen.tolist()
    ]


def _unlike(pool: Pool, width: int, begins: Ints, known: int) -> Ints:
    """Return for each window whether the pool is up at its beginning where it is down now, or the reverse."""
    up = pool.spot_gpus[len(pool) - known :] >= width
    return np.asarray(up[begins] != up[-1], dtype=np.int64)


def _went_on(pool: Pool, begin: int, slots: int) -> Pool:
    """Return a pool that goes on as it did from a slot on; its price moves from the present one."""
    at = len(pool) - 1
    usd: Floats = pool.spot_usd_per_gpu_hour[begin : begin + slots]
    moved = usd * (pool.spot_usd_per_gpu_hour[at] / usd[0]) if usd[0] > 0 else usd
    return continued(pool, _first(pool), at, pool.spot_gpus[begin : begin + slots], moved)


def _models(ground: PoolOptions, paths: int) -> list[list[Pool]]:
    """Return futures drawn for each pool by itself."""
    drawn = []
    for seed, (pool, job) in enumerate(zip(ground.pools, ground.places.jobs, strict=True)):
        others = tuple(other for other in ground.pools if other is not pool)
        drawn.append(scenarios(job, pool, others, paths=paths, seed=seed)[0])
    return [list(pools) for pools in zip(*drawn, strict=True)]


def present(ground: PoolOptions, pools: Sequence[Pool], slot: int) -> PoolOptions | None:
    """Return where a job may be that begins in a slot of the first pool, every past cut off there.

    Pools that are not recorded then are left out; None where fewer than two are.
    """
    own = pools[0]
    kept = []
    for at, pool in enumerate(ground.pools):
        last = slot + round((own.start - pool.start) / timedelta(hours=own.slot_hours))
        if 0 <= last < len(pool):
            kept.append((at, pool.window(0, last + 1)))
    if len(kept) < 2:
        return None
    there = only_pools(ground, [at for at, _ in kept])
    return replace(there, pools=tuple(pool for _, pool in kept))


def only_pools(ground: PoolOptions, rows: Sequence[int]) -> PoolOptions:
    """Return a job that may be in some of its pools only, given by their places in the order of all."""
    jobs, hours, usd, gpus = ground.places
    places = ground.places._replace(
        jobs=tuple(jobs[at] for at in rows),
        move_hours=hours[np.ix_(rows, rows)],
        move_usd=usd[np.ix_(rows, rows)],
        gpus=tuple(gpus[at] for at in rows) if gpus else (),
    )
    return PoolOptions(ground.job, tuple(ground.pools[at] for at in rows), places)
