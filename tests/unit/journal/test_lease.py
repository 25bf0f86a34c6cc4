"""One controller at a time: a second one is refused by name, and a dead one is not waited for."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slacktide.core.errors import BackendError, FileError, LeaseError
from slacktide.journal.store.lease import JournalLease, is_held

# Says which child it has, 0 for none, and holds the lease until its input ends or it is killed.
HOLDER = """
import os, subprocess, sys
from slacktide.journal.store.lease import JournalLease, is_held

def alone():
    return 0

def fork():
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"!")
        sys.stdin.read()
        os._exit(0)
    os.read(told, 1)
    return child

def start():
    return subprocess.Popen(["cat"], stdin=0, close_fds=False).pid

with JournalLease(sys.argv[1]):
    print({"alone": alone, "fork": fork, "start": start}[sys.argv[2]](), flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(journal: Path, child: str = "alone") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Lend a process that holds the lease, and the pid of its child."""
    line = [sys.executable, "-c", HOLDER, str(journal), child]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.stdin.close()  # ends it, and its child
        process.wait(30)
        process.stdout.close()


def test_a_second_controller_is_told_who_the_first_is(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with holder(journal) as (process, _):
        wanted = (
            rf"already has a controller: pid {process.pid} on {platform.node()} since 20.*; stop it, or give"
        )
        with pytest.raises(LeaseError, match=wanted) as caught, JournalLease(journal):
            pass
        assert str(caught.value).startswith(f"{journal}: ")
    with JournalLease(journal):
        pass


def test_the_lease_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with holder(journal) as (process, _):
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        with JournalLease(journal) as lease:
            assert json.loads(lease.path.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("way", ["fork", "start"])
def test_children_do_not_inherit_the_lease(tmp_path: Path, way: str) -> None:
    journal = tmp_path / "journal.db"
    with holder(journal, way) as (process, child):
        # A child that lets go does not let go for its parent.
        with pytest.raises(LeaseError), JournalLease(journal):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        os.kill(child, 0)  # the child lives
        with JournalLease(journal):
            pass


def test_it_is_held_once_within_a_process_too_and_let_go_after_a_failure(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with JournalLease(journal), pytest.raises(LeaseError), JournalLease(journal):
        pass
    with pytest.raises(ZeroDivisionError), JournalLease(journal):
        raise ZeroDivisionError
    with JournalLease(journal), JournalLease(tmp_path / "other.db"):
        pass


def test_the_note_says_who_and_since_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "journal.db"
    with JournalLease(path) as lease:
        lease.path.write_text("a long note " * 99)  # of one who held it before
    monkeypatch.setattr("slacktide.journal.store.lease.now_utc", lambda: datetime(2025, 10, 4, tzinfo=UTC))
    with JournalLease(path) as lease:
        assert json.loads(lease.path.read_text()) == {
            "pid": os.getpid(),
            "host": platform.node(),
            "since": "2025-10-04T00:00:00+00:00",
        }


def test_a_holder_that_has_not_signed_is_reported_too(tmp_path: Path) -> None:
    with JournalLease(tmp_path / "journal.db") as lease:
        lease.path.write_text("")
        with (
            pytest.raises(LeaseError, match="not written its name yet"),
            JournalLease(tmp_path / "journal.db"),
        ):
            pass


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FileError, match="its folder must be writable"),
        JournalLease(tmp_path / "file" / "x.db"),
    ):
        pass


def test_a_full_disk_is_reported_and_the_lease_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(BackendError, match="No space left"), JournalLease(tmp_path / "journal.db"):
            pass
    with JournalLease(tmp_path / "journal.db"):
        pass


def test_it_can_be_seen_whether_somebody_has_the_lease(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    assert not is_held(journal)
    assert list(tmp_path.iterdir()) == [], "who looks leaves nothing behind"
    with JournalLease(journal):
        assert is_held(journal)
    assert not is_held(journal)
    with holder(journal) as (process, _):
        assert is_held(journal)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert not is_held(journal), "one who was killed has let go"


def test_who_only_looks_does_not_keep_a_controller_out(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with JournalLease(journal):
        pass
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            is_held(journal)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(200):
            with JournalLease(journal):
                pass
    finally:
        done.set()
        looking.join()


def test_row_11_no_link_to_the_file_or_its_folder_evades_the_lease(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    journal = tmp_path / "real" / "journal.db"
    journal.touch()
    (tmp_path / "file.db").symlink_to(journal)
    (tmp_path / "chain.db").symlink_to("file.db")
    (tmp_path / "folder").symlink_to("real")
    names = [journal, tmp_path / "file.db", tmp_path / "chain.db", tmp_path / "folder" / "journal.db"]
    for held in names:
        with JournalLease(held) as lease:
            assert lease.path == tmp_path / "real" / ".journal.db.lease"
            for name in names:
                assert is_held(name)
                with pytest.raises(LeaseError, match="already has a controller"), JournalLease(name):
                    pass
    assert not any(is_held(name) for name in names)


def test_row_11_a_link_to_a_journal_that_is_not_there_yet_leads_to_its_lease(tmp_path: Path) -> None:
    (tmp_path / "later.db").symlink_to(tmp_path / "journal.db")
    with JournalLease(tmp_path / "later.db"):
        assert is_held(tmp_path / "journal.db")


@pytest.mark.parametrize("kind", ["removed", "replaced", "linked away"])
def test_row_11_a_holder_notices_that_its_lock_is_gone(tmp_path: Path, kind: str) -> None:
    with JournalLease(tmp_path / "journal.db") as lease:
        lease.check()
        lease.path.unlink()
        if kind == "replaced":
            lease.path.touch()
        elif kind == "linked away":
            lease.path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(LeaseError, match="must stay as it is while a controller has it, got none or"):
            lease.check()
    with pytest.raises(LeaseError):  # and one who does not hold it is told so
        lease.check()


def test_row_11_of_two_who_meet_over_a_removed_lock_one_gets_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, lock = tmp_path / "journal.db", JournalLease._lock

    def slow(self: JournalLease, handle: int) -> None:
        lock(self, handle)
        monkeypatch.undo()
        self.path.unlink()  # between our opening it and our having it

    monkeypatch.setattr(JournalLease, "_lock", slow)
    with JournalLease(journal) as lease:
        lease.check()
        assert is_held(journal)


def test_the_lock_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("notes")
    (tmp_path / ".journal.db.lease").symlink_to(tmp_path / "precious")
    with pytest.raises(FileError), JournalLease(tmp_path / "journal.db"):
        pass
    assert not is_held(tmp_path / "journal.db")
    assert (tmp_path / "precious").read_text() == "notes"
