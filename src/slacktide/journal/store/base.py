"""The contract of a store, whose events are appended at the end and read in order; and a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeAlias

from slacktide.core.errors import BackendError
from slacktide.journal.codec.codec import plain
from slacktide.journal.events import Event, Record

Clock: TypeAlias = Callable[[], datetime]  # returns the wall's time, aware of its zone


class Snapshot(NamedTuple):
    """What was folded from all events up to one of them: a cache, which saves folding them again."""

    seq: int
    """The number of the last event in it."""
    form: str
    """Names the code that folded it; a snapshot of another form is not used, and never converted."""
    body: bytes


class Store(Protocol):
    """Keeps events for good. What was appended is never changed and never removed."""

    def append(self, events: Iterable[Event]) -> list[Record]:
        """Write all of these or none; when it returns they are safe.

        Each gets the next number, so numbers only grow. Raises InputError for an event that could not be read
        back, and BackendError when the disk or database fails; nothing is written then.
        """
        ...

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        """Yield what is in the journal when reading begins, in order, from all writers.

        Only events with a number above `after`, and only those of `job` if one is named.
        """
        ...

    def last_seq(self) -> int:
        """Return the number of the last event; 0 when there is none."""
        ...

    def snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; older ones may go.

        Raises nothing: if it cannot be kept, the next reader folds the events instead.
        """
        ...

    def latest(self, form: str) -> Snapshot | None:
        """Return the newest snapshot of this form; None where there is none or it cannot be read."""
        ...

    def close(self) -> None:
        """Close the journal; closing twice does no harm."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def now_utc() -> datetime:
    """Return the wall's time."""
    return datetime.now(UTC)


class MemoryStore(Store):
    """Keeps events in memory, for tests: it accepts, returns and refuses what `SqliteStore` does."""

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
        # As they would be read from a disk, so that a test gets the same errors and the same values.
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
        """Close the journal; closing twice does no harm."""
        self._open = False

    def _must_be_open(self) -> None:
        if not self._open:
            raise BackendError("the journal must be open, got a closed one; open it again")
