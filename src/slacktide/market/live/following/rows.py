"""From prices that change at any time to the rows of a table: one for each pool and slot.

A row of a slot that is over has the price that held when the slot began; that of the present slot the newest
one. So filling a gap afterwards writes the rows that would have been written then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from slacktide.market.formats.reading.samples import MAX_USD_PER_GPU_HOUR, micros_of, stamp
from slacktide.market.live.base import Price

CLOCKS_APART = timedelta(minutes=5)
"""A price that holds from a moment so little ahead holds now: the clocks differ."""
LONGEST_NAME = 200
"""Characters in the name of a pool."""


class TableRow(NamedTuple):
    """One row of a table of live prices."""

    micros: int
    pool: str
    gpu: str
    spot_usd_per_gpu_hour: float
    on_demand_usd_per_gpu_hour: float

    def cells(self) -> tuple[str, ...]:
        """Return the row as texts, in the order of HEADER."""
        prices = (self.spot_usd_per_gpu_hour, self.on_demand_usd_per_gpu_hour)
        return stamp(self.micros), self.pool, self.gpu, *(repr(round(usd, 6)) for usd in prices)


HEADER = ("time_utc", "pool", "gpu", "spot_usd_per_gpu_hour", "on_demand_usd_per_gpu_hour")


def is_sound(price: Price) -> bool:
    """Whether a price can be written down: sources, and feeds of users' own, say anything."""
    names = (price.pool, price.gpu)
    plain = all(
        text.isprintable() and not set(text) & set(',"') and len(text) <= LONGEST_NAME for text in names
    )
    prices = [price.spot_per_gpu_hour, price.on_demand_per_gpu_hour or 0.0]
    possible = all(0.0 <= usd <= MAX_USD_PER_GPU_HOUR for usd in prices)
    return plain and bool(price.pool.strip()) and possible and price.since_utc.tzinfo is not None


def rows_due(
    prices: Iterable[Price], last_micros: Mapping[str, int], begin: datetime, now: datetime, step_micros: int
) -> list[TableRow]:
    """Return the rows that are missing until now, in order of time.

    `last_micros` is the last row of each pool that has one, `begin` where others begin.
    """
    changes: dict[str, list[Price]] = {}
    for price in prices:
        if price.since_utc <= now + CLOCKS_APART:
            changes.setdefault(price.pool, []).append(price)
    found = [
        row
        for pool, each in changes.items()
        for row in _of_pool(each, last_micros.get(pool, micros_of(begin) - 1), micros_of(now), step_micros)
    ]
    return sorted(found, key=lambda row: row.micros)


def _of_pool(changes: list[Price], last_micros: int, now_micros: int, step_micros: int) -> Iterator[TableRow]:
    """Yield a row for each slot after the last one in which a price is known."""
    changes.sort(key=lambda price: price.since_utc)
    times = [micros_of(price.since_utc) for price in changes]
    present = now_micros // step_micros
    first = max(last_micros // step_micros + 1, -(-times[0] // step_micros))
    for slot in range(min(first, present), present + 1):
        if slot * step_micros <= last_micros:
            continue  # it has a row already
        at = bisect_right(times, slot * step_micros) - 1 if slot < present else len(times) - 1
        if at >= 0:
            yield _row(changes[at], slot * step_micros)


def _row(price: Price, micros: int) -> TableRow:
    assert price.on_demand_per_gpu_hour is not None
    return TableRow(micros, price.pool, price.gpu, price.spot_per_gpu_hour, price.on_demand_per_gpu_hour)
