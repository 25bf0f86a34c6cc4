"""A market's digest: the same for the same numbers, whatever file or format they came from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from datetime import datetime

import numpy as np

from slacktide.core.lru_cache import LruCache
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.base import Market, Pool
from slacktide.market.pools.moves import Moves

SAME_BORDER = 1e-3
"""Borders of slots that lie closer than this share of a slot are one: the step of a feed is a median."""


_kept: LruCache[tuple[tuple[int, ...], Moves, datetime | None], str] = LruCache(16)


def digest(market: Market, until: datetime | None = None) -> str:
    """Return the SHA-256 of all quotes of a market, with the names, beginnings, slot lengths and
    notices of its pools, and with what moves cost where the market says it.

    `until` leaves out slots that begin at that time or later, pools that have no others, and the slot length:
    what grows at its end only, and measures its own step, keeps its digest.
    """
    names = tuple(pool.key for pool in market.pools)
    return _kept.get((names, market.moves, until), lambda: _digest(market, until))


def _digest(market: Market, until: datetime | None) -> str:
    found = hashlib.sha256()
    for pool in sorted(market.pools, key=lambda pool: pool.name):
        slots = len(pool) if until is None else _slots_before(pool, until)
        if slots:
            for part in _parts(pool, slots, None if until is not None else pool.slot_hours):
                found.update(part)
    if market.moves != Moves():  # those that are assumed were not part of a digest before there were any
        found.update(repr(market.moves).encode())
    return found.hexdigest()


def _parts(pool: Pool, slots: int, slot_hours: float | None) -> Iterator[bytes]:
    """Yield all that counts of a pool, each part of a length that follows from those before it."""
    # A notice of none was not part of a digest before there were any.
    notice = [pool.notice_hours] if pool.notice_hours else []
    head = json.dumps([pool.name, slots, slot_hours, pool.start.timestamp(), *notice])
    yield f"{len(head)} {head}".encode()
    yield np.ascontiguousarray(pool.spot_usd_per_gpu_hour[:slots], "<f8").tobytes()
    yield np.ascontiguousarray(pool.on_demand_usd_per_gpu_hour[:slots], "<f8").tobytes()
    yield np.ascontiguousarray(pool.spot_gpus[:slots], "<i8").tobytes()
    stock = pool.stock(0, slots)
    if bool((stock < UNLIMITED_GPUS).any()):  # what is unlimited was not part of a digest before
        yield np.ascontiguousarray(stock, "<i8").tobytes()


def _slots_before(pool: Pool, until: datetime) -> int:
    ahead = (until - pool.start).total_seconds() / 3600.0 / pool.slot_hours
    return max(0, min(len(pool), math.ceil(ahead - SAME_BORDER)))
