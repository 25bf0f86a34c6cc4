"""What was once seen to be false of real jobs: successes that were none, late ends, bills of nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.journal import open_journal
from slacktide.cli import run
from slacktide.journal.events import Ended, Lived, Lost, WorkerFailed
from slacktide.journal.state.journal_state import JobRecord
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import (
    PATIENCE_S,
    counting,
    progressed,
    state_of,
    wait_until,
    workers_of,
    write_job,
    write_table,
)

SPEED = "600"
"""A market hour in six seconds: half-hour slots of three seconds."""
STEPS = 4000
"""Far more than a test waits for."""


Begin: TypeAlias = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start the command line beside the test; what it says is in `said.txt`."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "said.txt").open("ab") as said:
            command = [sys.executable, "-m", "slacktide", *arguments]
            begun.append(subprocess.Popen(command, stdout=said, stderr=said))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def told(journal: Path, *kinds: type) -> list[object]:
    with SqliteStore(journal) as store:
        return [record.event for record in store.read() if isinstance(record.event, kinds)]


def record(journal: Path, job: str = "counting") -> JobRecord:
    return state_of(journal).jobs[job]


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def audited(journal: Path, job: str = "counting") -> float:
    """Return what a job cost, its audit being clean."""
    with open_journal(journal) as read:
        cost = read.cost(job)
        assert cost.audit.clean
        return cost.bill.cost_usd


@pytest.fixture
def running(journal: Path, tmp_path: Path, begin: Begin) -> Begin:
    """Start a controller with a job that is under way when this returns."""

    def start(steps: int = STEPS, more: str = "") -> subprocess.Popen[bytes]:
        job = write_job(tmp_path, counting(steps), more=more)
        beside = begin("run", job, "-y", "--speed", SPEED)
        wait_until(lambda: progressed(journal, share=0.002))
        return beside

    return start


def cancel_and_end(journal: Path, tmp_path: Path) -> None:
    """Clear up: cancel the job and let a controller see to it."""
    assert run(["cancel", "counting"]) == 0
    assert run(["run", "--resume", "-y"]) == 103
    assert workers_of(tmp_path) == []


def test_workers_told_to_stop_from_outside_have_not_succeeded(
    journal: Path, tmp_path: Path, running: Begin, begin: Begin
) -> None:
    beside = running()
    send(workers_of(tmp_path), signal.SIGTERM)  # as a logout or `systemctl stop` would
    wait_until(lambda: bool(told(journal, Lost)))
    wait_until(lambda: record(journal).holding.attempt > 1)
    assert record(journal).active
    assert record(journal).progress.failures == 0
    beside.send_signal(signal.SIGTERM)
    assert beside.wait(PATIENCE_S) == 101
    cancel_and_end(journal, tmp_path)
    assert not [event for event in told(journal, Ended) if event.status == "succeeded"]  # type: ignore[attr-defined]


def test_controller_and_workers_told_to_stop_together_leave_a_job_that_goes_on(
    journal: Path, tmp_path: Path, running: Begin, begin: Begin
) -> None:
    beside = running()
    send([*workers_of(tmp_path), beside.pid], signal.SIGTERM)  # as a reboot does
    assert beside.wait(PATIENCE_S) == 101
    assert record(journal).active
    assert not told(journal, Ended, WorkerFailed)
    cancel_and_end(journal, tmp_path)


def test_what_was_let_go_in_trouble_is_lost_and_begins_again(
    journal: Path, tmp_path: Path, begin: Begin
) -> None:
    job = write_job(tmp_path, counting(STEPS))

    def fall(now_hours: float) -> None:
        if progressed(journal, share=0.002):
            raise RuntimeError("something unforeseen")

    with Controller(journal, Setup(speed=float(SPEED))) as controller:
        controller.submit(Submission.read(job))
        with pytest.raises(RuntimeError, match="unforeseen"):
            controller.run(show=fall)
    assert workers_of(tmp_path) == []  # they were told to stop, and the journal knows nothing of it
    before = record(journal).holding.attempt
    again = begin("run", "--resume", "-y")
    wait_until(lambda: record(journal).holding.attempt > before)
    again.send_signal(signal.SIGTERM)
    assert again.wait(PATIENCE_S) == 101
    assert record(journal).active
    assert record(journal).progress.failures == 0
    assert not told(journal, Ended)
    audited(journal)
    cancel_and_end(journal, tmp_path)


def test_another_journal_at_the_same_path_does_not_adopt_the_old_one_s_run(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, counting(30))
    assert run(["run", job, "-y", "--speed", "3600"]) == 0
    for path in tmp_path.glob("*journal.db*"):
        path.unlink()
    capsys.readouterr()
    assert run(["run", job, "-y", "--speed", "3600"]) == 2
    assert "belong" in capsys.readouterr().err
    assert not state_of(journal).jobs


def test_a_job_that_ends_while_no_controller_is_there_ends_when_it_did(
    journal: Path, tmp_path: Path, running: Begin, begin: Begin
) -> None:
    beside = running(steps=900)
    beside.kill()
    beside.wait(PATIENCE_S)
    killed_hours = state_of(journal).now_hours
    wait_until(lambda: workers_of(tmp_path) == [])  # it has finished by itself
    time.sleep(6.5)  # more than an hour of the market, in which nothing is held
    assert run(["run", "--resume", "-y"]) == 0
    ended = record(journal).ended
    assert ended is not None
    assert ended.finish_hours > killed_hours - record(journal).began_hours
    stretches = [event.priced.stretch for event in told(journal, Lived)]  # type: ignore[attr-defined]
    assert stretches[-1].to_hours == pytest.approx(ended.finish_hours + record(journal).began_hours, abs=0.01)
    assert state_of(journal).now_hours > stretches[-1].to_hours + 0.9
    audited(journal)


def test_after_a_power_cut_nothing_is_paid_for_the_time_without_power(
    journal: Path, tmp_path: Path, running: Begin, begin: Begin
) -> None:
    beside = running()
    send([beside.pid, *workers_of(tmp_path)], signal.SIGKILL)
    beside.wait(PATIENCE_S)
    cut = state_of(journal).now_hours
    wait_until(lambda: workers_of(tmp_path) == [])
    time.sleep(7.0)  # more than an hour of the market
    job = begin("run", "--resume", "-y")
    wait_until(lambda: bool(told(journal, Lost)))
    job.send_signal(signal.SIGTERM)
    assert job.wait(PATIENCE_S) == 101
    assert record(journal).progress.failures == 0
    stretches = [event.priced.stretch for event in told(journal, Lived)]  # type: ignore[attr-defined]
    dark = [one for one in stretches if cut + 0.5 < one.from_hours < cut + 1.0 and one.gpus]
    assert dark == []
    cancel_and_end(journal, tmp_path)
    audited(journal)


def test_a_missing_secret_or_market_blocks_one_job_and_not_the_others(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Begin
) -> None:
    monkeypatch.setenv("TOKEN", "hush")
    secret = write_job(tmp_path, counting(STEPS), name="secret", more="secrets: {TOKEN: }\n")
    plain = write_job(tmp_path, counting(60), name="plain")
    beside = begin("run", secret, plain, "-y", "--speed", SPEED)
    wait_until(lambda: progressed(journal, "secret", share=0.002))
    beside.send_signal(signal.SIGTERM)
    assert beside.wait(PATIENCE_S) == 101
    monkeypatch.delenv("TOKEN")
    job = begin("controller")
    wait_until(lambda: not record(journal, "plain").active)
    wait_until(lambda: bool(record(journal, "secret").progress.blocked))
    assert record(journal, "plain").status == "succeeded"
    assert "TOKEN" in record(journal, "secret").progress.blocked
    assert run(["cancel", "secret"]) == 0
    wait_until(lambda: not record(journal, "secret").active)
    job.send_signal(signal.SIGTERM)
    assert job.wait(PATIENCE_S) == 0
    assert record(journal, "secret").status == "cancelled"
    assert "hush" not in (tmp_path / "said.txt").read_text(encoding="utf-8")


def test_a_vanished_market_blocks_and_can_be_cancelled(
    journal: Path, tmp_path: Path, running: Begin, begin: Begin, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = running()
    beside.send_signal(signal.SIGTERM)
    assert beside.wait(PATIENCE_S) == 101
    (tmp_path / "market.csv").unlink()
    assert run(["run", "--resume", "-y"]) == 101
    assert "blocked: " in capsys.readouterr().err
    job = begin("controller")
    wait_until(lambda: bool(record(journal).progress.blocked))
    assert run(["cancel", "counting"]) == 0
    wait_until(lambda: not record(journal).active)
    job.send_signal(signal.SIGTERM)
    assert job.wait(PATIENCE_S) == 0
    assert record(journal).status == "cancelled"
    write_table(tmp_path / "market.csv", 600)


def test_a_job_that_exits_0_before_its_work_is_done_has_failed(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quits = "echo '{\"done\": 0.3}' >> $SLACKTIDE_PROGRESS"
    job = write_job(tmp_path, f"|\n  {quits}", more="retries: {failures: 0}\n")
    assert run(["run", job, "-y", "--speed", "3600"]) == 100
    assert record(journal).status == "failed"
    assert "before its work was done" in capsys.readouterr().out
