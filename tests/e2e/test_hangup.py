"""The terminal is closed while jobs run: all is let go in order, or the run goes on without a screen."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.journal.events import Ended, Opened, Released
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import counting, state_of, wait_until, workers_of, write_job

RETRIES = "retries: {failures: 0}\n"
SPEED, SLOW_S = "3600", 600.0


def told(journal: Path, *kinds: type) -> list[object]:
    with SqliteStore(journal) as store:
        return [record.event for record in store.read() if isinstance(record.event, kinds)]


@contextmanager
def on_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Lend a command that runs on a terminal of its own, and the end by which that is closed."""
    master, slave = os.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-m", "slacktide", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(SLOW_S)


def working(journal: Path, folder: Path) -> bool:
    """Whether workers of a job are there, and the journal knows it."""
    return any(record.holding.order for record in state_of(journal).active) and bool(workers_of(folder))


def working_on_terminal(journal: Path, master: int) -> bool:
    """Whether a job is at work; what its terminal shows meanwhile is read, or it would stand still."""
    os.set_blocking(master, False)
    try:
        while os.read(master, 65536):
            pass
    except BlockingIOError:
        pass
    return working(journal, journal.parent)


@pytest.mark.parametrize("output", ["table", "json"])
def test_row_10_a_closed_terminal_lets_a_run_go_in_order(journal: Path, tmp_path: Path, output: str) -> None:
    job = write_job(tmp_path, counting(100_000))
    with on_terminal("run", job, "-y", "--speed", SPEED, "-o", output) as (process, master):
        wait_until(lambda: working_on_terminal(journal, master))
        os.close(master)
        assert process.wait(SLOW_S) == 101
    assert workers_of(tmp_path) == []
    assert len(told(journal, Released)) == 1
    assert not is_held(journal)


def test_row_10_a_closed_terminal_lets_a_controller_go_in_order(journal: Path, tmp_path: Path) -> None:
    assert run(["submit", write_job(tmp_path, counting(100_000)), "--no-wait"]) == 0
    with on_terminal("controller", "--speed", SPEED) as (process, master):
        wait_until(lambda: working_on_terminal(journal, master))
        os.close(master)
        assert process.wait(SLOW_S) == 0
    assert workers_of(tmp_path) == []
    assert len(told(journal, Released)) == 1


@pytest.mark.parametrize("command", ["run", "controller"])
def test_row_10_with_on_hangup_continue_it_goes_on_without_a_screen(
    journal: Path, tmp_path: Path, command: str
) -> None:
    job = write_job(tmp_path, counting(400))
    arguments = ["run", job, "-y"]
    if command == "controller":
        assert run(["submit", job, "--no-wait"]) == 0
        arguments = ["controller"]
    with on_terminal(*arguments, "--speed", SPEED, "--on-hangup", "continue") as (process, master):
        wait_until(lambda: working_on_terminal(journal, master))
        os.close(master)
        if command == "controller":
            wait_until(lambda: bool(told(journal, Ended)))
            process.send_signal(signal.SIGTERM)
        assert process.wait(SLOW_S) == 0
    assert state_of(journal).jobs["counting"].status == "succeeded"
    assert len(told(journal, Opened)) == 1


def test_row_10_nohup_is_respected(journal: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slacktide", "run", write_job(tmp_path, counting(150)), "--speed", SPEED]
    process = subprocess.Popen(["nohup", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: working(journal, tmp_path))
    process.send_signal(signal.SIGHUP)
    assert process.wait(SLOW_S) == 0


def test_row_10_a_run_whose_reader_is_gone_goes_on_and_says_how_it_ended(
    journal: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "slacktide", "run", write_job(tmp_path, "exit 3", more=RETRIES)]
    process = subprocess.Popen([*command, "--speed", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=SLOW_S)
    assert process.returncode == 100, "the exit code says that the job failed, whoever reads the bill"
    assert not [line for line in err.splitlines() if not line.startswith(b"computing")], (
        "nothing but what takes long"
    )


def test_row_10_jobs_of_a_killed_controller_are_unattended(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "slacktide", "run", write_job(tmp_path, counting(100_000))]
    process = subprocess.Popen([*command, "--speed", SPEED], stdout=subprocess.DEVNULL)
    wait_until(lambda: any(record.status == "running" for record in state_of(journal).active))
    assert run(["jobs"]) == 0
    assert " running " in capsys.readouterr().out
    process.kill()
    process.wait(SLOW_S)
    # A worker that was being started has the controller's files until it runs its own program.
    wait_until(lambda: not is_held(journal))
    assert run(["jobs"]) == 0
    out, err = capsys.readouterr()
    assert " unattended " in out
    assert "no controller is running" in err
    assert "workers of counting may still run without a controller" in err
    for words in (["preempt", "counting"], ["cancel", "counting"]):
        assert run(words) == 0
        assert "no controller is running" in capsys.readouterr().err
    assert run(["run", "--resume"]) == 103
    capsys.readouterr()
    assert run(["jobs"]) == 0
    assert " cancelled " in capsys.readouterr().out


def test_row_10_a_pipe_that_is_closed_is_no_failure(journal: Path, tmp_path: Path) -> None:
    with SqliteStore(journal) as store:
        store.append([Opened(at_hours=0.0, pid=1, host="here", version="1", why="x" * 100)] * 3000)
    listing = subprocess.Popen(
        [sys.executable, "-m", "slacktide", "events"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None
    assert listing.stdout.readline()
    listing.stdout.close()
    _, err = listing.communicate(timeout=SLOW_S)
    assert (listing.returncode, err) == (0, b"")
