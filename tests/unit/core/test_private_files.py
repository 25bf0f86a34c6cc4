"""What Slacktide keeps for itself is the user's alone, whatever the umask: seen were 0644 and 0755."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.core import compiled
from slacktide.core.files import is_our_own_folder, write_whole
from slacktide.journal.events import Closed
from slacktide.journal.store.lease import JournalLease
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.policies.selection.policy_set import fresh
from slacktide.policies.selection.state_file import LearnedStateFile


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The most careless umask there is."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the rights of a folder and of all that is in it."""
    return {path.name: oct(stat.S_IMODE(path.lstat().st_mode)) for path in [folder, *folder.rglob("*")]}


def test_a_journal_its_log_and_its_lease_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "deeper"
    with SqliteStore(folder / "journal.db") as store, JournalLease(store.path):
        store.append([Closed(at_hours=1.0)])
        found = modes(tmp_path / "new")
    assert set(found) == {
        "new",
        "deeper",
        "journal.db",
        "journal.db-wal",
        "journal.db-shm",
        ".journal.db.lease",
    }
    assert found.pop("new") == found.pop("deeper") == "0o700"
    assert set(found.values()) == {"0o600"}


def test_a_lease_alone_makes_a_private_folder(tmp_path: Path) -> None:
    with JournalLease(tmp_path / "new" / "journal.db"):
        assert modes(tmp_path / "new") == {"new": "0o700", ".journal.db.lease": "0o600"}


def test_a_journal_through_a_link_to_nowhere_is_private(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "target.db")
    SqliteStore(tmp_path / "link.db").close()
    assert modes(tmp_path)["target.db"] == "0o600"


def test_a_journal_of_before_is_closed_to_others_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteStore(path), JournalLease(path):
        for file in tmp_path.iterdir():
            file.chmod(0o664)
        with SqliteStore(path, create=False):
            assert set(modes(tmp_path).values()) - {modes(tmp_path)[tmp_path.name]} == {"0o600"}


def test_what_is_no_journal_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, but long enough to be looked at as one" * 20)
    path.chmod(0o644)
    with pytest.raises(Exception, match="must be a journal"):
        SqliteStore(path)
    assert modes(tmp_path)["notes.txt"] == "0o644"


def test_an_open_journal_keeps_its_locks_when_it_is_opened_again(tmp_path: Path) -> None:
    """SQLite's locks belong to the process and go when any handle of the file is closed."""
    path = tmp_path / "journal.db"
    with SqliteStore(path) as store:
        store.append([Closed(at_hours=1.0)])
        path.chmod(0o644)
        SqliteStore(path).close()
        # Another process opens and closes it: the last to leave removes the log.
        code = f"import sqlite3; db = sqlite3.connect({str(path)!r}); db.execute('SELECT * FROM events')"
        subprocess.run([sys.executable, "-c", f"{code}; db.close()"], check=True)
        assert (tmp_path / "journal.db-wal").exists()


def test_what_was_learned_is_private_also_if_it_was_open_before(tmp_path: Path) -> None:
    path = tmp_path / "state" / "learn.json"
    with LearnedStateFile(path, fresh).changing():
        pass
    assert modes(path.parent) == {"state": "0o700", "learn.json": "0o600", ".learn.json.lock": "0o600"}
    path.chmod(0o644)
    with LearnedStateFile(path, fresh).changing():
        pass
    assert modes(path.parent)["learn.json"] == "0o600"


def test_what_a_user_asked_for_is_as_open_as_the_umask_says(tmp_path: Path) -> None:
    os.umask(0o027)
    write_whole(tmp_path / "out" / "report.html", b"")
    assert modes(tmp_path / "out") == {"out": "0o750", "report.html": "0o640"}


def test_machine_code_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_CACHE", str(tmp_path / "cache"))
    assert set(modes(compiled.cache_dir.__wrapped__()).values()) == {"0o700"}


def test_machine_code_is_not_taken_from_a_temporary_folder_that_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKTIDE_CACHE", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted = tmp_path / f"slacktide-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    folder = compiled.cache_dir.__wrapped__()
    assert planted not in folder.parents
    assert is_our_own_folder(folder)
    assert is_our_own_folder(folder.parent)
