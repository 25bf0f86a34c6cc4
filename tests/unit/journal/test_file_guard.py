"""A journal that was cut short, replaced or damaged, also while it is open: it is told, never believed."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.checks.history import HISTORY, JOB
from slacktide.cli import run
from slacktide.core.errors import BackendError, FileError
from slacktide.journal.events import CancellationAsked, Event
from slacktide.journal.store.sqlite import SqliteStore

GOLDEN = Path(__file__).parents[2] / "golden" / "journals"
PYTHON_WORDS = ("NoneType", "KeyError", "TypeError", "ValueError", "object has no", "Traceback", "'utf-8'")


def asked(count: int, why: str = "") -> list[Event]:
    return [CancellationAsked(job=f"job-{number}", at_hours=1.0, why=why) for number in range(count)]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of some pages that nobody has open."""
    path = tmp_path / "journal.db"
    with SqliteStore(path) as store:
        store.append(asked(300, "because " * 20))
    return path


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _overwrite(path: Path) -> None:
    other = path.with_name("other.db")
    with SqliteStore(other) as store:
        store.append(asked(900, "because " * 20))
    with other.open("rb") as source, path.open("r+b") as target:  # as cp does: the same file, other content
        shutil.copyfileobj(source, target)
        target.truncate()


LOSSES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: os.truncate(path, 0),
    "halved": lambda path: os.truncate(path, path.stat().st_size // 2),
    "overwritten": _overwrite,
    "log removed": lambda path: _log(path).unlink(),
    "log replaced": lambda path: shutil.move(shutil.copy(path, f"{path}.copy"), _log(path)),
    "log emptied": lambda path: os.truncate(_log(path), 0),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("use", ["append", "read"])
def test_row_14_a_loss_while_it_is_open_is_noticed_at_the_next_use(
    journal: Path, loss: str, use: str
) -> None:
    with SqliteStore(journal) as store:
        store.append(asked(5))
        LOSSES[loss](journal)
        with pytest.raises(FileError, match=r"whole") as caught:
            store.append(asked(1)) if use == "append" else list(store.read(after=303))
        assert str(caught.value).startswith(f"{journal}: ")
        with pytest.raises(FileError):  # and it stays so
            store.append(asked(1))


@pytest.mark.parametrize("way", ["moved", "deleted", "replaced"])
def test_row_14_a_journal_that_is_not_in_its_place_is_noticed_by_readers_too(journal: Path, way: str) -> None:
    with SqliteStore(journal) as store:
        store.append(asked(5))
        journal.rename(journal.with_name("moved.db"))
        if way == "deleted":
            journal.with_name("moved.db").unlink()
        elif way == "replaced":
            SqliteStore(journal.with_name("new.db")).close()
            journal.with_name("new.db").rename(journal)
        with pytest.raises(BackendError, match="must stay where it is while it is open"):
            list(store.read(after=303))


def test_what_sqlite_does_to_its_files_is_no_loss(journal: Path) -> None:
    with SqliteStore(journal) as store:
        store.append(asked(900, "because " * 20))
        for statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"):
            other = sqlite3.connect(journal)
            other.execute(statement).fetchall()
            other.close()
            store.append(asked(5))
            assert len(list(store.read())) == store.last_seq()
        for _ in range(20):  # many times the size at which the log is folded in
            store.append(asked(300, "because " * 20))
        assert len(list(store.read())) == store.last_seq()


def test_row_14_events_do_not_become_fewer(journal: Path) -> None:
    with SqliteStore(journal) as store:
        assert store.last_seq() == len(list(store.read())) == 300
        other = sqlite3.connect(journal)
        other.execute("DROP TRIGGER no_delete")
        other.execute("DELETE FROM events WHERE seq > 250")
        other.commit()
        other.close()
        with pytest.raises(FileError, match="must not become fewer, got 250 after 300"):
            store.last_seq()


def test_row_14_an_empty_file_beside_a_log_is_refused_and_the_log_kept(journal: Path, tmp_path: Path) -> None:
    with SqliteStore(journal) as store:
        store.append(asked(5))
        copy = tmp_path / "copy.db"
        copy.touch()
        shutil.copy(_log(journal), _log(copy))
    before = _log(copy).read_bytes()
    for create in (True, False):
        with pytest.raises(FileError, match=r"got an empty file, although copy\.db-wal has events"):
            SqliteStore(copy, create=create)
    assert _log(copy).read_bytes() == before


def _flipped(path: Path, find: bytes, put: bytes) -> None:
    content = path.read_bytes()
    assert find in content
    path.write_bytes(content.replace(find, put))


@pytest.mark.parametrize(
    ("find", "put", "words"),
    [
        (b"because because", b"beca\xffse because", "text that is not UTF-8"),
        (b'"why": "because because', b'"why": "because becausf', "another checksum: it was damaged"),
        (b'"at_hours": 1.0', b'"at_hours": 2.0', "another checksum: it was damaged"),
        (b'"crc": ', b'"crd": ', "it was damaged, or written by a newer"),
        (b"CREATE TABLE events", b"CREATE TA\xdeLE events", "text that is not UTF-8"),
        (b"SQLite format 3\0\x10", b"SQLite format 3\0\x11", "not a database"),
    ],
    ids=["utf-8", "letter", "number", "key", "schema", "header"],
)
def test_row_15_damage_exits_with_2_and_a_sentence(
    journal: Path, find: bytes, put: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _flipped(journal, find, put)
    assert run(["events", "--journal", str(journal)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err) < 600
    assert not any(word in err for word in PYTHON_WORDS)


COMMANDS = (["jobs"], ["events"], ["cost"], ["logs", JOB], ["cancel", JOB])
FLIPS = 60
"""Damaged journals per seed; `campaigns` flips many more."""


@pytest.mark.parametrize("kind", ["present", "finished", "cancelled"])
def test_row_15_flipped_bytes_are_answered_and_never_a_traceback(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, random_ = tmp_path / "journal.db", random.Random(kind)
    if kind == "present":
        with SqliteStore(path) as store:
            store.append(HISTORY)
        whole = path.read_bytes()
    else:
        whole = (GOLDEN / f"{kind}.db").read_bytes()
    codes = set()
    for _ in range(FLIPS):
        content = bytearray(whole)
        for _ in range(random_.choice((1, 2, 50))):
            content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
        for command in COMMANDS:
            path.write_bytes(content)
            code = run([*command, "--journal", str(path)])
            err = capsys.readouterr().err
            assert not any(word in err for word in PYTHON_WORDS), err
            assert code in (0, 1, 2, 102), (code, err)
            assert code != 2 or err.startswith("slacktide: error: "), err
            codes.add(code)
            for left in (f"{path.name}-wal", f"{path.name}-shm"):
                path.with_name(left).unlink(missing_ok=True)
    assert 2 in codes
