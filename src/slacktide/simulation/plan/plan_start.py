"""Where a planned job would begin, and what of its market is known then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.simulation import plain
from slacktide.simulation.pool_options import PoolOptions

RECENT_HOURS = 14 * 24.0  # how far back recent starts reach


class PlanStart(NamedTuple):
    """Where a job would begin: its pool, at which of its slots, and what the market's past is there."""

    market: Market  # the whole record
    past: Market  # what of it is known in the slot in which the job begins: that slot's quote is the last
    pool: str
    slot: int

    @classmethod
    def at(cls, market: Market, pool: str, slot: int) -> PlanStart:
        """Cut a market off after the slot in which a job begins."""
        now = market.pool(pool).time(slot)
        pools = [
            (one, math.floor((now - one.start).total_seconds() / 3600 / one.slot_hours + 1e-6))
            for one in market.pools
        ]
        known = tuple(one.window(0, min(at + 1, len(one))) for one, at in pools if at >= 0)
        return cls(market, Market(known, market.source, market.assumptions, market.moves), pool, slot)

    @property
    def place(self) -> Pool:
        """The pool's past."""
        return self.past.pool(self.pool)

    @property
    def neighbours(self) -> tuple[Pool, ...]:
        """The other pools' past."""
        return tuple(other for other in self.past.pools if other.name != self.pool)

    def reaches_back(self, job: Job) -> bool:
        """Whether the past covers the job's deadline at all, so that there are recent starts in it."""
        return plain.last_start(job, self.place) >= 0

    def recent(self, job: Job) -> PlanStart:
        """Return where recent starts are looked for: in the past, or in the whole record."""
        return self if self.reaches_back(job) else PlanStart(self.market, self.market, self.pool, self.slot)

    def recent_window(self, job: Job) -> Pool:
        """Return the end of the pool that holds the recent starts and their deadlines."""
        place = self.recent(job).place
        slots = math.ceil((RECENT_HOURS + job.deadline_hours) / place.slot_hours)
        return place.window(max(0, len(place) - slots), len(place))


def known_at(options: PoolOptions, pools: Sequence[Pool], slot: int) -> PoolOptions | None:
    """Return where a job may be that begins in a slot of the first pool, every past cut off there.

    Pools that are not recorded then are left out; None where fewer than two are.
    """
    own = pools[0]
    kept = []
    for at, pool in enumerate(options.pools):
        last = slot + round((own.start - pool.start) / timedelta(hours=own.slot_hours))
        if 0 <= last < len(pool):
            kept.append((at, pool.window(0, last + 1)))
    if len(kept) < 2:
        return None
    there = only_pools(options, [at for at, _ in kept])
    return replace(there, pools=tuple(pool for _, pool in kept))


def only_pools(options: PoolOptions, rows: Sequence[int]) -> PoolOptions:
    """Return a job that may be in some of its pools only, given by their places in the order of all."""
    jobs, hours, usd, gpus = options.places
    places = options.places._replace(
        jobs=tuple(jobs[at] for at in rows),
        move_hours=hours[np.ix_(rows, rows)],
        move_usd=usd[np.ix_(rows, rows)],
        gpus=tuple(gpus[at] for at in rows) if gpus else (),
    )
    return replace(options, pools=tuple(options.pools[at] for at in rows), places=places)
