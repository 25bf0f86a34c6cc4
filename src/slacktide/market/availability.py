"""How many spot GPUs pools had where no source counts them: from our own requests, or else assumed.

A request that was refused, or a machine that was taken back, shows how many there were at most; a machine
that came shows how many at least. Each is believed for BELIEVED_HOURS, or until the next observation. At all
other times a number is assumed, and the market says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.base import Market, Pool

BELIEVED_HOURS = 1.0
"""How long an observation is assumed to hold: after an hour about half of it is still true (the
autocorrelation of availability in measured zones is .46 to .69 at one hour)."""
MOST_RECENT = 256  # how many of the latest observations are searched for the one that holds
MOST_LISTED = 6  # pools whose observations the assumptions list; more would bury the rest


class SeenSpot(NamedTuple):
    """What was learned of a pool's spot at a moment."""

    at_utc: datetime
    at_least_gpus: int
    at_most_gpus: int = UNLIMITED_GPUS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecord:
    """What our requests for spot machines showed of one pool over time."""

    seen: tuple[SeenSpot, ...] = ()  # in order of time
    tries: int = 0  # spot machines that were requested
    refused: int = 0  # requests that were refused because there were none
    taken_back: int = 0  # machines that came and were interrupted

    def sentence(self, pool: str) -> str:
        """Say in one sentence what was seen."""
        words = f"{self.tries} spot machine{'s'[: self.tries != 1]} requested, {self.refused} refused"
        since = f"{self.seen[0].at_utc:%Y-%m-%d %H:%M} UTC on" if self.seen else "then on"
        return f"Seen of {pool} from {since}: {words}, {self.taken_back} taken back."


def gpus_at(record: PoolRecord | None, at_utc: datetime, assumed_gpus: int) -> int:
    """Return the spot GPUs that a pool is assumed to have at a moment, given what was seen until then."""
    until = [] if record is None else [seen for seen in record.seen[-MOST_RECENT:] if seen.at_utc <= at_utc]
    if not until or at_utc - until[-1].at_utc >= timedelta(hours=BELIEVED_HOURS):
        return assumed_gpus
    last = until[-1]
    return max(last.at_least_gpus, min(assumed_gpus, last.at_most_gpus))


def record_for(pool: str, pools: int, records: Mapping[str, PoolRecord]) -> PoolRecord | None:
    """Return the record of a pool; if there is only one pool and one record, their names may differ."""
    if pool in records or pools > 1 or len(records) != 1:
        return records.get(pool)
    return next(iter(records.values()))


def nothing_seen(assumed_gpus: int) -> str:
    """Say what is assumed where nothing was seen."""
    return (
        f"The table has prices only, as no source reports what is available: {assumed_gpus} spot GPUs are "
        "assumed wherever our own tries have not shown otherwise."
    )


def learned(market: Market, records: Mapping[str, PoolRecord]) -> Market:
    """Return a market whose uncounted pools have the spot that was seen, and whose assumptions say so."""
    found = {name: record_for(name, len(market.pools), records) for name in market.uncounted}
    seen = {name: record for name, record in found.items() if record is not None and record.seen}
    if not seen:
        return market
    pools = tuple(learned_pool(pool, seen[pool.name]) if pool.name in seen else pool for pool in market.pools)
    first = [record.sentence(name) for name, record in list(seen.items())[:MOST_LISTED]]
    rule = (
        f"What was seen is assumed to hold for {BELIEVED_HOURS:g} h, or until the next try; at other times "
        "the assumed number of spot GPUs is used."
    )
    return replace(market, pools=pools, assumptions=(*market.assumptions, *first, rule))


def learned_pool(pool: Pool, record: PoolRecord) -> Pool:
    """Return a pool whose assumed counts are replaced by observations, while each of these is believed."""
    gpus = np.array(pool.spot_gpus)
    ends = [seen.at_utc for seen in record.seen[1:]]
    for seen, following in zip(record.seen, [*ends, None], strict=True):
        begin = _slots(pool, seen.at_utc)
        end = begin + BELIEVED_HOURS / pool.slot_hours
        end = end if following is None else min(end, _slots(pool, following))
        first, last = max(0, math.floor(begin)), max(0, math.ceil(end))
        part = gpus[first:last]
        np.clip(part, seen.at_least_gpus, max(seen.at_least_gpus, seen.at_most_gpus), out=part)
    return replace(pool, spot_gpus=gpus)


def _slots(pool: Pool, at_utc: datetime) -> float:
    """Return the slots from the pool's beginning to a moment."""
    return (at_utc - pool.start).total_seconds() / 3600.0 / pool.slot_hours
