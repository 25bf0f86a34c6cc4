"""The journal after a sudden end: what was acknowledged is there, what was cut off never was."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from slacktide.journal.events import CancellationAsked, Event, Record
from slacktide.journal.store.base import Snapshot
from slacktide.journal.store.sqlite import SqliteStore

WRITER = """
import sys
from slacktide.journal.events import CancellationAsked
from slacktide.journal.store.sqlite import SqliteStore
store, batch = SqliteStore(sys.argv[1]), 0
while True:
    batch += 1
    size = 1 + 37 * batch % 60
    name, whys = f"{sys.argv[2]}-{batch}", [f"{number} of {size}" for number in range(size)]
    said = store.append(CancellationAsked(job=name, at_hours=1.0, why=why) for why in whys)
    print(said[-1].seq, flush=True)
"""


def killed_after(path: Path, name: str, acknowledged: int) -> int:
    """Kill a process when it has said so often that it appended; return the last number it said."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(acknowledged)]
    writer.send_signal(signal.SIGKILL)
    said += writer.stdout.readlines()  # what it had said before the signal came
    writer.stdout.close()
    assert writer.wait(30) == -signal.SIGKILL
    return int(said[-1])


def assert_whole(records: list[Record]) -> None:
    """Numbers have neither holes nor doubles, and every batch is there from its first to its last event."""
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    for _, batch in groupby(records, key=lambda record: record.event.job):
        whys = [record.event.why for record in batch]
        assert whys == [f"{number} of {len(whys)}" for number in range(len(whys))]


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    for life, acknowledged in enumerate((1, 2, 5, 17, 40)):
        last = killed_after(path, f"life-{life}", acknowledged)
        with SqliteStore(path, create=False) as store:
            records = list(store.read())
        assert_whole(records)
        assert len(records) >= last


@pytest.mark.parametrize("seed", range(3))
def test_a_log_cut_anywhere_leaves_whole_batches(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path, ends = tmp_path / "journal.db", [0]
    with SqliteStore(path) as store:
        for batch in range(12):
            ends.append(store.append(_batch(f"batch-{batch}", rng.randrange(1, 60)))[-1].seq)
        log = path.with_name("journal.db-wal")
        size = log.stat().st_size
        cuts = [*sorted(rng.randrange(size + 1) for _ in range(12)), size]
        found = [_after_a_cut(path, log, cut, tmp_path / f"cut-{number}") for number, cut in enumerate(cuts)]
    for records in found:
        assert_whole(records)
        assert len(records) in ends
    assert [len(records) for records in found] == sorted(len(records) for records in found)
    assert len(found[-1]) == ends[-1]


@pytest.mark.parametrize("seed", range(2))
def test_a_log_cut_anywhere_leaves_a_whole_snapshot_that_the_events_reach(tmp_path: Path, seed: int) -> None:
    rng, path = random.Random(seed), tmp_path / "journal.db"
    with SqliteStore(path) as store:
        for batch in range(6):
            seq = store.append(_batch(f"batch-{batch}", rng.randrange(1, 60)))[-1].seq
            store.snapshot(Snapshot(seq, "form", b"%d " % seq * 3000))
        log = path.with_name("journal.db-wal")
        for number in range(12):
            cut = rng.randrange(log.stat().st_size + 1)
            copy = _cut(path, log, cut, tmp_path / f"cut-{number}")
            with SqliteStore(copy, create=False) as found:
                kept, last = found.latest("form"), found.last_seq()
            assert kept is None or (kept.seq <= last and kept.body == b"%d " % kept.seq * 3000)
        assert store.latest("form") == Snapshot(seq, "form", b"%d " % seq * 3000)


def _batch(name: str, size: int) -> list[Event]:
    return [CancellationAsked(job=name, at_hours=1.0, why=f"{number} of {size}") for number in range(size)]


def _after_a_cut(path: Path, log: Path, cut: int, folder: Path) -> list[Record]:
    """Return what stands in a copy of the journal whose log ends here, as after a power cut."""
    with SqliteStore(_cut(path, log, cut, folder), create=False) as store:
        return list(store.read())


def _cut(path: Path, log: Path, cut: int, folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(path, folder)
    (folder / log.name).write_bytes(log.read_bytes()[:cut])
    return folder / path.name
