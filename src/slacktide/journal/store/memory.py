"""A journal in memory that behaves like the one on disk and lasts as long as the process: for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from datetime import UTC

from slacktide.core.errors import BackendError
from slacktide.journal.codec.codec import plain
from slacktide.journal.events import Event, Record
from slacktide.journal.store.base import Clock, Snapshot, Store, now_utc


class MemoryStore(Store):
    """Keeps events in memory; takes, gives and refuses what `SqliteStore` does."""

    def __init__(self, *, clock: Clock = now_utc) -> None:
        """Begin an empty journal."""
        self._records: list[Record] = []
        self._snapshot: Snapshot | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._open = True

    def append(self, events: Iterable[Event]) -> list[Record]:
        """Keep all of these or none."""
        self._must_be_open()
        # As they would be read from a disk, so that a test meets the same refusals and the same values.
        kept = [plain(event) for event in events]
        with self._lock:
            now = self._clock().astimezone(UTC)
            first = len(self._records) + 1
            fresh = [Record(first + index, now, event) for index, event in enumerate(kept)]
            self._records += fresh
        return fresh

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        """Yield what is kept when reading begins, in order."""
        self._must_be_open()
        for record in self._records[max(after, 0) :]:
            if job is None or record.event.job == job:
                yield record

    def last_seq(self) -> int:
        """Return the number of the last event; 0 when there is none."""
        self._must_be_open()
        return len(self._records)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot instead of the one before."""
        self._snapshot = snapshot

    def latest(self, form: str) -> Snapshot | None:
        """Return the snapshot that is kept, if it is of this form."""
        kept = self._snapshot
        return kept if kept is not None and kept.form == form else None

    def close(self) -> None:
        """Let go of the journal; closing twice does no harm."""
        self._open = False

    def _must_be_open(self) -> None:
        if not self._open:
            raise BackendError("the journal must be open, got a closed one; open it again")
