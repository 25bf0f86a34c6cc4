"""A snapshot saves folding, tells the same as the events, and is never trusted when in doubt."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slacktide.backends.replay import Replay
from slacktide.checks.history import HISTORY
from slacktide.engine.engine import Engine
from slacktide.journal.events import CancellationAsked, ClockSet, Event, Record
from slacktide.journal.state import snapshots
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import (
    EVENTS_PER_JOB,
    EVERY_EVENTS,
    is_due,
    keep,
    known,
    present_form,
    read_state,
)
from slacktide.journal.store.base import MemoryStore, Snapshot, Store
from slacktide.journal.store.sqlite import SqliteStore

JOURNALS = Path(__file__).parents[3] / "golden" / "journals"


def folded(records: Iterator[Record]) -> JournalState:
    state = JournalState()
    for record in records:
        state.apply(record)
    return state


def told(count: int) -> list[Event]:
    return [CancellationAsked(job="nobody", at_hours=1.0) for _ in range(count)]


@pytest.fixture
def kept() -> tuple[MemoryStore, Snapshot, JournalState]:
    """A journal with a history, and a snapshot of all of it."""
    store = MemoryStore()
    store.append(HISTORY)
    state = folded(store.read())
    keep(store, state)
    found = store.latest(present_form())
    assert found is not None
    return store, found, state


@pytest.mark.parametrize("journal", sorted(path.stem for path in JOURNALS.glob("*.db")))
def test_journals_of_before_tell_the_same_from_any_cut_on(journal: str, tmp_path: Path) -> None:
    with SqliteStore(shutil.copy(JOURNALS / f"{journal}.db", tmp_path)) as store:
        whole, state = folded(store.read()), JournalState()
        for record in store.read():
            state.apply(record)
            keep(store, state)
            assert known(store).seq == record.seq
            assert repr(read_state(store)) == repr(whole)


def test_a_snapshot_of_another_form_is_not_used(kept: tuple[MemoryStore, Snapshot, JournalState]) -> None:
    store, found, state = kept
    assert known(store) == state
    store.snapshot(found._replace(form="of other code"))
    assert known(store) == JournalState()
    assert read_state(store) == state


def test_the_form_is_that_of_all_code_that_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    before, sources = present_form(), snapshots._source
    for module in (
        "journal.state.journal_state",
        "journal.events",
        "physics.ledger",
        "physics.tariff",
        "core.types",
        "journal.state.tickets",
        "journal.codec.old_journals",
    ):
        monkeypatch.setattr(
            snapshots, "_source", lambda name, m=module: sources(name) + "#" * (name == f"slacktide.{m}")
        )
        assert present_form.__wrapped__() != before, module


def test_the_form_is_the_same_in_a_process_that_has_imported_nothing_else() -> None:
    code = "from slacktide.journal.state.snapshots import present_form; print(present_form())"
    alone = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert alone.stdout.strip() == present_form()


@given(st.data())
def test_a_damaged_snapshot_is_as_good_as_none(data: st.DataObject) -> None:
    store = MemoryStore()
    store.append(HISTORY)
    state = folded(store.read())
    keep(store, state)
    found = store.latest(present_form())
    assert found is not None
    place = data.draw(st.integers(0, len(found.body) - 1))
    damaged = bytearray(found.body)
    damaged[place] ^= data.draw(st.integers(1, 255))
    cut = found.body[:place]
    for body in (bytes(damaged), cut):
        store.snapshot(found._replace(body=body))
        assert known(store) in (JournalState(), state)
        assert read_state(store) == state


def test_a_snapshot_that_does_not_fit_is_as_good_as_none(
    kept: tuple[MemoryStore, Snapshot, JournalState],
) -> None:
    store, found, state = kept
    tree = json.loads(zlib.decompress(found.body))
    wrongs: list[object] = [[], {**tree, "jobs": 3}, {**tree, "unknown": 1}, {**tree, "seq": state.seq - 1}]
    for wrong in wrongs:
        store.snapshot(found._replace(body=zlib.compress(json.dumps(wrong).encode())))
        assert known(store) == JournalState()
    store.snapshot(found._replace(seq=state.seq + 1))
    assert known(store) == JournalState()


def test_a_state_that_cannot_be_written_is_not_kept() -> None:
    store, state = MemoryStore(), JournalState(now_hours=float("nan"))
    keep(store, state)
    assert store.latest(present_form()) is None


def test_the_engine_keeps_a_snapshot_every_so_many_events() -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    for count, wanted in ((EVERY_EVENTS - 1, 0), (1, EVERY_EVENTS), (10, EVERY_EVENTS)):
        store.append(told(count))
        engine.step(1.0)
        assert known(store).seq == wanted
    store.append(told(EVERY_EVENTS))
    engine.step(1.0)
    assert known(store).seq == 2 * EVERY_EVENTS + 10


def test_many_jobs_make_snapshots_rarer(kept: tuple[MemoryStore, Snapshot, JournalState]) -> None:
    _, _, state = kept
    (record,) = list(state.jobs.values())[:1]
    many = JournalState()
    for number in range(EVERY_EVENTS):
        many.jobs.add(dataclasses.replace(record, job=f"job-{number}"))
    many.seq = EVENTS_PER_JOB * EVERY_EVENTS
    assert is_due(many, 0)
    assert not is_due(many, 1)


class Counting(MemoryStore):
    """Counts the events that were read."""

    read_events = 0

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        for record in super().read(after, job):
            self.read_events += 1
            yield record


def test_an_engine_reads_only_what_came_after_the_snapshot() -> None:
    store = Counting()
    store.append([ClockSet(at_hours=0.0, epoch_utc="2026-01-01T00:00:00+00:00", speed=1.0), *told(99)])
    assert read_of(store) == 100
    keep(store, read_state(store))
    store.append(told(3))
    assert read_of(store) == 3


def read_of(store: Counting) -> int:
    """Return how many events an engine reads when it begins."""
    before = store.read_events
    ready: Store = store
    assert Engine(ready, Replay()).state.seq == store.last_seq()
    return store.read_events - before


def test_the_form_is_known_before_any_store_is_imported() -> None:
    code = "from slacktide.journal.state.snapshots import present_form; print(present_form())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == present_form()
