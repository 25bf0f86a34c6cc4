"""Every store against every check of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from slacktide.checks import STORE_CHECKS, CheckFailed, check_store
from slacktide.checks.history import HISTORY
from slacktide.checks.store import Again, StoreCheck
from slacktide.core.errors import BackendError
from slacktide.journal.events import KINDS, Event, Record
from slacktide.journal.store.base import MemoryStore, Snapshot, Store
from slacktide.journal.store.sqlite import SqliteStore

Kind = tuple[Callable[[Path], Store], Again | None]

EVERY: dict[str, Kind] = {
    "memory": (lambda folder: MemoryStore(), None),
    "sqlite": (lambda folder: SqliteStore(folder / "journal.db"), lambda store: SqliteStore(store.path)),
}


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY)
def test_store_keeps_the_contract(kind: Kind, check: StoreCheck, tmp_path: Path) -> None:
    make, again = kind
    with make(tmp_path) as store:
        check(store, again)


def test_the_history_has_every_kind_of_event() -> None:
    assert {type(event).__name__ for event in HISTORY} == set(KINDS)


class Forgetful(MemoryStore):
    """Loses the last of a batch."""

    def append(self, events: Iterable[Event]) -> list[Record]:
        return super().append(list(events)[:-1])


class Backward(MemoryStore):
    """Reads the newest first."""

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        return reversed(list(super().read(after, job)))


class Deaf(MemoryStore):
    """Does not hear which job is meant."""

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        return super().read(after)


class Repeating(MemoryStore):
    """Gives the event itself once more when asked for what came after it."""

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        return super().read(after - 1, job)


class Hasty(MemoryStore):
    """Writes event by event."""

    def append(self, events: Iterable[Event]) -> list[Record]:
        return [record for event in events for record in super(Hasty, self).append([event])]


class Endless(MemoryStore):
    """Goes on reading what is appended meanwhile."""

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        # A list may grow while one walks along it.
        return (record for record in self._records if record.seq > after and job in (None, record.event.job))


class Rounding(MemoryStore):
    """Loses the sign of nothing."""

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        for record in super().read(after, job):
            object.__setattr__(record.event, "at_hours", record.event.at_hours + 0.0)
            yield record


class Lasting(MemoryStore):
    """Does not close."""

    def close(self) -> None:
        pass


class Amnesic(MemoryStore):
    """Keeps no snapshots."""

    def latest(self, form: str) -> Snapshot | None:
        return None


class Undiscerning(MemoryStore):
    """Gives a snapshot to whoever asks."""

    def latest(self, form: str) -> Snapshot | None:
        return self._snapshot


class Fussy(MemoryStore):
    """Complains of a snapshot that cannot be kept."""

    def snapshot(self, snapshot: Snapshot) -> None:
        if not self._open:
            raise BackendError("the journal must be open")
        super().snapshot(snapshot)


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (Forgetful, "events must be"),
        (Backward, "what append returns"),
        (Deaf, "of job"),
        (Repeating, "events after 1 must"),
        (Hasty, "after batches that were refused"),
        (Endless, "must end"),
        (Rounding, "events must be"),
        (Lasting, "closed"),
        (Amnesic, "the snapshot that was kept last"),
        (Undiscerning, "the snapshot of another form"),
        (Fussy, "must raise nothing"),
    ],
)
def test_checks_catch_a_store_that_breaks_the_contract(store: type[MemoryStore], words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_store(store)


def test_checks_catch_a_store_that_does_not_share() -> None:
    with pytest.raises(CheckFailed, match="another handle"):
        check_store(MemoryStore, again=lambda store: MemoryStore())
