"""A journal by other names, moved, cut short or replaced: one controller, and no journal lost in silence."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.jobs.submission import Submission
from slacktide.cli import run
from slacktide.journal.events import Closed
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import counting, state_of, wait_until, workers_of, write_job
from .test_run_cli import started

SLOW_S = 600.0


def dry(folder: Path) -> Setup:
    """A controller that starts nothing, and learns apart from the user."""
    return Setup(backend="replay", learned=folder / "learn.json", speed=36_000.0)


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    """See that a process has ended, whatever the block does; then the list holds what it printed."""
    printed: list[str] = []
    try:
        yield printed
    finally:
        if process.poll() is None:
            process.terminate()
        printed += process.communicate(timeout=SLOW_S)


@pytest.fixture
def first(journal: Path) -> Iterator[subprocess.Popen[str]]:
    """A controller in a process of its own, in charge of the journal."""
    process = started("controller", "--backend", "replay", "--speed", "3600")
    with ended(process):
        wait_until(lambda: is_held(journal) and state_of(journal).controller is not None)
        yield process


def test_row_11_a_second_controller_by_a_linked_file_or_folder_is_refused(
    journal: Path, first: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link.db").symlink_to(journal)
    (tmp_path / "folder").symlink_to(tmp_path)
    for name in ("link.db", "folder/link.db"):
        second = started("controller", "--backend", "replay", "--journal", str(tmp_path / name))
        with ended(second) as printed:
            wait_until(lambda: second.poll() is not None)  # noqa: B023
        assert second.returncode == 4
        assert f"already has a controller: pid {first.pid}" in printed[1]
    assert run(["submit", write_job(tmp_path, "true"), "--journal", str(tmp_path / "link.db")]) == 0
    assert capsys.readouterr().out == "counting\n"
    assert not list(tmp_path.glob("link.*-wal")) + list(tmp_path.glob(".link*"))


def stopped_at(controller: Controller, hours: float) -> None:
    """Run until an hour of the market, then let go in order."""
    controller.run(stopping=lambda: controller.state.now_hours >= hours, poll_s=0.001)


def test_row_11_a_journal_that_was_moved_with_its_runs_goes_on(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new" / "deep"
    old.mkdir()
    new.mkdir(parents=True)
    job = write_job(tmp_path, "true")
    with Controller(old / "journal.db", dry(tmp_path)) as controller:
        controller.submit(Submission.read(job))
        stopped_at(controller, 1.0)
        assert controller.state.jobs["counting"].active
    for path in (old / "journal.db", old / "journal.runs"):
        if path.exists():
            path.rename(new / path.name)
    assert [path.name for path in old.iterdir()] == [".journal.db.lease"], "all of it lies beside the journal"
    with SqliteStore(new / "journal.db") as store:
        assert not any(str(old) in str(record.event) for record in store.read()), "nothing names its place"
    with Controller(new / "journal.db", dry(tmp_path)) as controller:
        controller.run(poll_s=0.001)
        assert controller.state.jobs["counting"].status == "succeeded"
        assert controller.journal.cost_of_all().bill.audit.clean


def _emptied(journal: Path) -> None:
    os.truncate(journal, 0)


def _overwritten(journal: Path) -> None:
    """Put another journal's content into the file, as cp does."""
    with SqliteStore(journal.with_name("other.db")) as store:
        store.append([Closed(at_hours=0.0)])
    content = journal.with_name("other.db").read_bytes()
    with journal.open("r+b") as file:
        file.write(content)
        file.truncate()


def _without_log(journal: Path) -> None:
    journal.with_name("journal.db-wal").unlink()


@pytest.mark.parametrize("lose", [_emptied, _overwritten, _without_log])
def test_row_14_a_controller_whose_journal_is_cut_short_lets_go_and_says_so(
    journal: Path, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    with SqliteStore(journal) as store:
        store.append([Closed(at_hours=0.0)] * 500)  # of a past that stands in the file alone
    assert run(["submit", write_job(tmp_path, counting(100_000)), "--no-wait"]) == 0
    process = started("controller", "--speed", "3600")
    with ended(process) as printed:
        wait_until(lambda: any(record.holding.order for record in state_of(journal).active))
        wait_until(lambda: bool(workers_of(tmp_path)))
        lose(journal)
        wait_until(lambda: process.poll() is not None)
    assert process.returncode == 2, printed
    assert "Traceback" not in printed[1]
    assert "the journal must stay whole while it is open, got" in printed[1]
    assert "the workers were stopped" in printed[1]
    assert workers_of(tmp_path) == []
