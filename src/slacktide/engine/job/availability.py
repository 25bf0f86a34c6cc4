"""What a journal shows of spot, pool by pool: machines that were requested, refused, and taken back.

It is folded from tickets: every machine is requested with one, so no attempt is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.journal.events import Joined, Record, Rented, Returned
from slacktide.market.availability import PoolRecord, SeenSpot


@dataclass(slots=True)
class SpotSeen:
    """Folds records into what was seen of each pool."""

    pools: dict[str, PoolRecord] = field(default_factory=dict)
    _tickets: dict[str, Rented] = field(default_factory=dict)  # those that are open
    _joined: set[str] = field(default_factory=set)
    _seq: int = 0

    def apply(self, record: Record) -> None:
        """Apply the next event, in the journal's order; one that was applied already is ignored."""
        if record.seq <= self._seq:
            return
        self._seq, event = record.seq, record.event
        if isinstance(event, Rented) and event.capacity == "spot":
            self._tickets[event.ticket] = event
            self._note(event.pool, tries=1)
        elif isinstance(event, Joined) and event.ticket in self._tickets:
            self._joined.add(event.ticket)
            pool = self._tickets[event.ticket].pool
            self._see(pool, record.time_utc, UNLIMITED_GPUS)
        elif isinstance(event, Returned) and event.ticket in self._tickets:
            self._returned(self._tickets.pop(event.ticket), event, record.time_utc)

    def _returned(self, rented: Rented, event: Returned, at_utc: datetime) -> None:
        self._joined.discard(event.ticket)
        if event.cause == "no-capacity":
            self._note(rented.pool, refused=1)
            self._see(rented.pool, at_utc, self._held_gpus(rented.pool) + rented.gpus - 1)
        elif event.cause == "interrupted":
            self._note(rented.pool, taken_back=1)
            self._see(rented.pool, at_utc, self._held_gpus(rented.pool))

    def _held_gpus(self, pool: str) -> int:
        return sum(self._tickets[name].gpus for name in self._joined if self._tickets[name].pool == pool)

    def _see(self, pool: str, at_utc: datetime, at_most_gpus: int) -> None:
        known = self.pools[pool]
        sighting = SeenSpot(at_utc, self._held_gpus(pool), at_most_gpus)
        self.pools[pool] = replace(known, seen=(*known.seen, sighting))

    def _note(self, pool: str, tries: int = 0, refused: int = 0, taken_back: int = 0) -> None:
        known = self.pools.get(pool, PoolRecord())
        self.pools[pool] = replace(
            known,
            tries=known.tries + tries,
            refused=known.refused + refused,
            taken_back=known.taken_back + taken_back,
        )


def spot_seen(records: Iterable[Record]) -> dict[str, PoolRecord]:
    """Return what was seen of the spot of each pool that was ever tried."""
    found = SpotSeen()
    for record in records:
        found.apply(record)
    return found.pools
