"""The journal on disk: only added to, shared by processes, and clear about files it cannot use."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from slacktide.checks.history import HISTORY
from slacktide.core.errors import BackendError, FileError
from slacktide.journal.events import CancellationAsked, Event
from slacktide.journal.store import database
from slacktide.journal.store.base import Snapshot
from slacktide.journal.store.sqlite import PAGE_EVENTS, SqliteStore


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with a history in it, that nobody has open."""
    path = tmp_path / "journal.db"
    with SqliteStore(path) as store:
        store.append(HISTORY)
    return path


def asked(count: int, why: str = "") -> list[Event]:
    return [CancellationAsked(job=f"job-{number}", at_hours=1.0, why=why) for number in range(count)]


def change(path: Path, *statements: str) -> None:
    """Do to a journal what only somebody from outside would."""
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def test_the_table_can_be_searched_by_hand(journal: Path) -> None:
    database = sqlite3.connect(journal)
    rows = database.execute("SELECT seq, time_utc, job, kind, actor, at_hours, why FROM events").fetchall()
    database.close()
    assert [row[0] for row in rows] == list(range(1, len(HISTORY) + 1))
    assert [row[2:] for row in rows] == [
        (event.job, type(event).__name__, event.actor, event.at_hours, event.why) for event in HISTORY
    ]
    assert all(row[1].endswith("Z") for row in rows)


def test_times_are_kept_in_utc_to_the_microsecond(tmp_path: Path) -> None:
    moment = datetime(2025, 10, 4, 2, 0, 0, 1, tzinfo=timezone(timedelta(hours=2)))
    with SqliteStore(tmp_path / "journal.db", clock=lambda: moment) as store:
        store.append(asked(1))
        (found,) = store.read()
        assert found.time_utc == moment
        assert found.time_utc.tzinfo is UTC


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET why = 'another'",
        "DELETE FROM events WHERE seq = 1",
        "INSERT OR REPLACE INTO events SELECT * FROM events WHERE seq = 1",
    ],
    ids=["update", "delete", "replace"],
)
def test_nothing_is_changed_or_removed(journal: Path, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="only added to"):
        change(journal, statement)


def test_what_is_on_the_disk_is_durable(journal: Path) -> None:
    with SqliteStore(journal) as store:
        ask = store._database.execute
        assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
        assert ask("PRAGMA synchronous").fetchone() == (2,)


def test_a_closed_journal_is_one_file(journal: Path) -> None:
    assert [path.name for path in journal.parent.iterdir()] == ["journal.db"]


def test_odd_job_names_are_told_apart(tmp_path: Path) -> None:
    names = ["\udc80", "\\udc80", "a'b", "a\0b", "a"]
    with SqliteStore(tmp_path / "journal.db") as store:
        store.append([CancellationAsked(job=name, at_hours=1.0) for name in names])
        for name in names:
            assert [record.event.job for record in store.read(job=name)] == [name]


def _foreign(path: Path) -> None:
    change(path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")


def _newer(path: Path) -> None:
    SqliteStore(path).close()
    change(path, "PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b"hello"), "must be a journal of Slacktide, whole, got: file is not"),
        (
            lambda path: path.write_bytes(b"0" * 9000),
            "must be a journal of Slacktide, whole, got: file is not",
        ),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"?" * 90), "must be a journal of Slacktide"),
        (_foreign, "got another program's database"),
        (_newer, "of version 1, got version 2; use the Slacktide that wrote it"),
    ],
    ids=["text", "long text", "torn header", "foreign", "newer"],
)
@pytest.mark.parametrize("create", [True, False], ids=["create", "open"])
def test_other_files_are_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], object], words: str, create: bool
) -> None:
    path = tmp_path / "file.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(FileError, match=words) as caught:
        SqliteStore(path, create=create)
    assert str(caught.value).startswith(f"{path}: ")
    assert path.read_bytes() == before
    assert [left.name for left in tmp_path.iterdir()] == ["file.db"]


def test_what_is_not_there_is_made_only_when_wanted(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal.db"
    with pytest.raises(FileError, match="must exist, got nothing there; submit a job"):
        SqliteStore(path, create=False)
    assert not path.parent.exists()
    SqliteStore(path).close()
    with SqliteStore(path, create=False) as store:
        assert store.last_seq() == 0


def test_an_empty_file_becomes_a_journal_only_when_wanted(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch()
    with pytest.raises(FileError, match="got an empty file"):
        SqliteStore(path, create=False)
    with SqliteStore(path) as store:
        assert len(store.append(asked(1))) == 1


@pytest.mark.parametrize("done", range(len(database.TABLE)))
def test_a_journal_that_was_not_made_to_the_end_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(database, "TABLE", (*database.TABLE[:done], "fail"))
        with pytest.raises(BackendError, match="usable"):
            SqliteStore(tmp_path / "journal.db")
    with SqliteStore(tmp_path / "journal.db") as store:
        assert len(store.append(asked(1))) == 1


def test_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must be a file, got a folder"):
        SqliteStore(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="its folder must be writable"):
        SqliteStore(tmp_path / "file" / "journal.db")


def test_names_that_mean_something_to_sqlite_are_just_names(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#b%20 é.db"
    with SqliteStore(path) as store:
        store.append(asked(1))
    assert path.exists()


def test_damage_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteStore(path) as store:
        store.append(asked(300, "because " * 20))
    content = bytearray(path.read_bytes())
    content[8192:-8192] = b"\xa5" * (len(content) - 16384)
    path.write_bytes(content)
    with pytest.raises(FileError, match=f"{path}: must be .* whole, got: .*malformed"):
        _read(path)
    assert path.read_bytes() == bytes(content)


def _read(path: Path) -> None:
    with SqliteStore(path, create=False) as store:
        list(store.read())


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["DROP TRIGGER no_delete", "DELETE FROM events WHERE seq = 3"], "without a gap, got 4 after 2"),
        (["DROP TRIGGER no_delete", "DELETE FROM events WHERE seq = 1"], "without a gap, got 2 after 0"),
        (
            ["DROP TRIGGER no_update", "UPDATE events SET data = '{' WHERE seq = 2"],
            "event 2: .* must be JSON",
        ),
        (
            ["DROP TRIGGER no_update", "UPDATE events SET data = x'00' WHERE seq = 2"],
            "event 2: .*must be JSON",
        ),
        (
            ["DROP TRIGGER no_update", "UPDATE events SET time_utc = 'noon' WHERE seq = 2"],
            "event 2: .*'noon'",
        ),
        (["DROP TABLE events"], "must be open and usable, got: no such table"),
    ],
    ids=["hole", "hole in front", "no json", "bytes", "no time", "no table"],
)
def test_a_journal_that_was_tampered_with_is_told(journal: Path, statements: list[str], words: str) -> None:
    change(journal, *statements)
    with pytest.raises((FileError, BackendError), match=words) as caught:
        _read(journal)
    assert str(caught.value).startswith(f"{journal}: ")


def test_a_full_disk_leaves_nothing_of_a_batch(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "journal.db") as store, SqliteStore(store.path) as other:
        said = store.append(asked(5))
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(BackendError, match=r"the disk must have space .* nothing was written"):
            store.append(asked(1000))
        assert list(store.read()) == list(other.read()) == said
        said += store.append(asked(1))  # what is small still fits
        store._database.execute("PRAGMA max_page_count = 1000000")
        said += store.append(asked(1000))
        assert list(other.read()) == said
        assert [record.seq for record in said] == list(range(1, 1007))


# The operating system refuses to let files grow: the write of the log itself fails half-way.
NO_ROOM = """
import resource, sys
from slacktide.core.errors import BackendError
from slacktide.journal.events import CancellationAsked
from slacktide.journal.store.sqlite import SqliteStore
def asked(count):
    return [CancellationAsked(job="j", at_hours=1.0, why="because " * 50) for _ in range(count)]
with SqliteStore(sys.argv[1]) as store:
    store.append(asked(5))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    for room in (33_000, 70_001, 150_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            store.append(asked(1000))
            sys.exit("written without room")
        except BackendError as error:
            assert "disk" in str(error) and "nothing was written" in str(error), error
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert [record.seq for record in store.read()] == [1, 2, 3, 4, 5]
    assert store.append(asked(1000))[-1].seq == 1005
with SqliteStore(sys.argv[1]) as store:
    assert [record.seq for record in store.read()] == list(range(1, 1006))
"""


def test_a_disk_that_fails_half_way_leaves_nothing_of_a_batch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", NO_ROOM, str(tmp_path / "journal.db")], check=True, timeout=60)


def test_a_failure_of_the_system_leaves_nothing_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        insert, done = store._insert, list[int]()

        def failing(*arguments: object) -> object:
            if len(done) == 2:
                raise OSError(5, "Input/output error")
            done.append(1)
            return insert(*arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(store, "_insert", failing)
            with pytest.raises(BackendError, match="the disk under the journal must work, got: Input/output"):
                store.append(asked(3))
        assert store.last_seq() == 0
        assert [record.seq for record in store.append(asked(1))] == [1]


READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77
exec "$2" -c 'import sys
from slacktide.core.errors import FileError
from slacktide.journal.store.sqlite import SqliteStore
for create in (True, False):
    try:
        with SqliteStore(sys.argv[1], create=create) as store:
            assert len(list(store.read())) == int(sys.argv[2])
            store.append([record.event for record in store.read()])
            sys.exit("written to a disk that is read-only")
    except FileError as error:
        assert "must be writable" in str(error), error' "$1/journal.db" "$3"
"""


def test_a_disk_that_is_read_only_is_told(journal: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to make a folder read-only")
    script = ["sh", "-c", READ_ONLY, "sh", str(journal.parent), sys.executable, str(len(HISTORY))]
    before = journal.read_bytes()
    apart = ["unshare", "--map-root-user", "--mount", *script]
    done = subprocess.run(apart, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"may not mount here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert journal.read_bytes() == before


@pytest.mark.parametrize("gone", ["moved", "replaced"])
def test_a_journal_that_was_taken_away_is_not_written_to(journal: Path, gone: str) -> None:
    with SqliteStore(journal) as store:
        journal.rename(journal.with_name("elsewhere.db"))
        if gone == "replaced":
            journal.touch()
        with pytest.raises(BackendError, match="must stay where it is while it is open"):
            store.append(asked(1))


def test_one_who_keeps_the_journal_is_reported(journal: Path) -> None:
    keeper = sqlite3.connect(journal, isolation_level=None)
    keeper.execute("BEGIN IMMEDIATE")
    with SqliteStore(journal, patience_s=0.0) as store:
        with pytest.raises(BackendError, match=r"other processes must release .* got: database is locked"):
            store.append(asked(1))
        assert len(list(store.read())) == len(HISTORY)  # readers do not wait for writers
        keeper.execute("ROLLBACK")
        assert len(store.append(asked(1))) == 1
    keeper.close()


def test_one_who_keeps_the_log_from_being_begun_is_reported(journal: Path) -> None:
    change(journal, "PRAGMA journal_mode = DELETE")
    reader = sqlite3.connect(journal, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM events").fetchone()
    with pytest.raises(BackendError, match="other processes must release"):
        SqliteStore(journal, patience_s=0.0)
    reader.close()
    with SqliteStore(journal, patience_s=0.0) as store:
        assert len(store.append(asked(1))) == 1


def test_a_slow_reader_does_not_keep_the_log_from_being_folded_in(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "journal.db") as store, SqliteStore(store.path) as other:
        store.append(asked(PAGE_EVENTS + 1))
        reading = other.read()
        next(reading)
        busy, _, _ = store._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
        assert len(list(reading)) == PAGE_EVENTS


def test_threads_may_share_a_store(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        threads = [
            threading.Thread(
                target=lambda: [store.append(asked(3)) and list(store.read()) for _ in range(20)]
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        jobs = [record.event.job for record in store.read()]
        assert jobs == ["job-0", "job-1", "job-2"] * 80


WRITER = """
import sys
from slacktide.journal.events import CancellationAsked
from slacktide.journal.store.sqlite import SqliteStore
print("ready", flush=True)
sys.stdin.readline()
with SqliteStore(sys.argv[1]) as store:
    for batch in range(40):
        why = f"{sys.argv[2]}-{batch}"
        said = store.append(CancellationAsked(job=str(part), at_hours=1.0, why=why) for part in range(3))
        assert {record.event.why for record in store.read(after=said[0].seq - 1)} >= {why}
"""


def test_processes_that_begin_and_fill_a_journal_at_once_lose_nothing(tmp_path: Path) -> None:
    path, names = tmp_path / "journal.db", ["a", "b", "c"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        os.write(writer.stdin.fileno(), b"go\n")
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    with SqliteStore(path, create=False) as store:
        found = [(record.event.why, record.event.job) for record in store.read()]
    batches = [found[first : first + 3] for first in range(0, len(found), 3)]
    assert all([part for _, part in batch] == ["0", "1", "2"] for batch in batches)
    for name in names:  # each writer's batches are whole and in its order
        own = [batch[0][0] for batch in batches if len({why for why, _ in batch}) == 1]
        assert [why for why in own if why.startswith(name)] == [f"{name}-{batch}" for batch in range(40)]


def tables(path: Path) -> set[str]:
    database = sqlite3.connect(path)
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    database.close()
    return {name for (name,) in names if not name.startswith("sqlite_")}


def test_a_journal_gets_its_table_of_snapshots_with_the_first_one(journal: Path) -> None:
    with SqliteStore(journal, create=False) as store:
        assert store.latest("form") is None
    assert tables(journal) == {"events"}
    with SqliteStore(journal) as store:
        store.snapshot(Snapshot(3, "form", b"body"))
        store.snapshot(Snapshot(4, "another", b"body"))
        assert store.latest("form") is None
    assert tables(journal) == {"events", "snapshots"}
    with SqliteStore(journal, create=False) as store:
        assert store.latest("another") == Snapshot(4, "another", b"body")
        assert len(list(store.read())) == len(HISTORY)


def test_a_snapshot_that_cannot_be_kept_leaves_the_journal_usable(journal: Path) -> None:
    change(journal, "CREATE TABLE snapshots (something_else TEXT)")
    with SqliteStore(journal) as store:
        store.snapshot(Snapshot(3, "form", b"body"))
        assert store.latest("form") is None
        store.append(asked(1))
        assert store.last_seq() == len(HISTORY) + 1


def test_no_snapshot_is_written_to_a_journal_that_was_moved(journal: Path) -> None:
    with SqliteStore(journal) as store:
        journal.rename(journal.with_name("moved.db"))
        store.snapshot(Snapshot(3, "form", b"body"))
    assert tables(journal.with_name("moved.db")) == {"events"}
