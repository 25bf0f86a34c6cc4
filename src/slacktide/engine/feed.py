"""A market that is still being written: a file to which somebody appends a row per slot.

`feed:PATH` names a market table (CSV) that grows. A slot whose row has not come yet is taken to be like
the last one that has; when the row comes it counts from then on. What is recorded of the past never changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.errors import InputError
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market

SCHEME = "feed:"


def is_feed(spec: str) -> bool:
    """Whether a market's name means a feed."""
    return spec.startswith(SCHEME)


def open_feed(spec: str, **options: Any) -> Market:
    """Open a feed as it stands now; raises FileError or InputError."""
    return open_market(feed_path(spec), **options)


def feed_path(spec: str) -> str:
    """Return the file of a feed."""
    path = spec.removeprefix(SCHEME)
    if not path:
        raise InputError(f"a feed must name its file, as in {SCHEME}prices.csv, got {spec!r}")
    return path


class Feed:
    """One pool of a feed, read again when its file has grown."""

    def __init__(self, spec: str, pool: str, **options: Any) -> None:
        self._path, self._name, self._options = Path(feed_path(spec)), pool, options
        self._stamp: tuple[int, int] | None = None
        self._held = 0
        """Slots at the end of the pool whose rows have not come."""
        self._pool = self._read()

    def pool(self, slot: int) -> Pool:
        """Return the pool with all that has come, long enough to have this slot."""
        if slot >= len(self._pool) - self._held:
            self._pool = self._read()
        if slot >= len(self._pool):
            self._held += slot + 1 - len(self._pool)
            self._pool = _held_on(self._pool, slot + 1)
        return self._pool

    def _read(self) -> Pool:
        status = os.stat(self._path)
        stamp = (status.st_size, status.st_mtime_ns)
        if stamp == self._stamp:
            return self._pool
        self._stamp, self._held = stamp, 0
        return open_market(str(self._path), **self._options).pool(self._name)


def _held_on(pool: Pool, slots: int) -> Pool:
    """Return a pool whose last quote goes on until it has this many slots."""
    known = np.minimum(np.arange(slots), len(pool) - 1)
    return Pool(
        pool.name,
        pool.slot_hours,
        pool.spot_usd_per_gpu_hour[known],
        pool.on_demand_usd_per_gpu_hour[known],
        pool.spot_gpus[known],
        pool.start,
    )
