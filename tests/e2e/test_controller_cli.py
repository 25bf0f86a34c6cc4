"""`slacktide controller` and `slacktide submit` in processes of their own: jobs go through the journal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.journal.events import Opened, SubmissionAsked, SubmissionRefused, Submitted
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import counting, progressed, state_of, wait_until, workers_of, write_job
from .test_run_cli import check_documented, started

Start = Callable[..., "subprocess.Popen[str]"]
SPEED, FROM_THE_START = "360", ("--start", "0")
"""Slow, and from the market's beginning, so that a slow machine does not come to its end between two jobs."""
SLOW_S = 600.0
"""How long a process may take on a slow machine: a bill compiles at first."""


@pytest.fixture
def controller(journal: Path) -> Iterator[Start]:
    """Start controllers that are in charge when they are handed over; none outlives the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        running.append(started("controller", "--speed", SPEED, *options))
        wait_until(lambda: is_held(journal) and state_of(journal).controller is not None)
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=SLOW_S)


def submitted(*arguments: str) -> str:
    """Submit a job from another process, see it taken in, and return what was printed."""
    process = started("submit", *arguments)
    out, err = process.communicate(timeout=SLOW_S)
    assert process.returncode == 0, err
    return out.strip()


def told(journal: Path, *kinds: type) -> list[object]:
    with SqliteStore(journal) as store:
        return [record.event for record in store.read() if isinstance(record.event, kinds)]


def status_of(journal: Path, job: str) -> str:
    return state_of(journal).jobs[job].status


def test_jobs_of_other_processes_run_and_the_next_controller_goes_on(
    journal: Path, tmp_path: Path, controller: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    first = controller(*FROM_THE_START)
    short = [write_job(tmp_path, counting(60), name=name) for name in ("one", "two")]
    assert [submitted(path) for path in short] == ["one", "two"]
    long = write_job(tmp_path, counting(100_000), name="long")
    assert json.loads(submitted(long, "--key", "k", "-o", "json")) == {"key": "k", "job": "long"}
    assert submitted(long, "--key", "k") == "long", "the same key is the same job"
    assert len(told(journal, SubmissionAsked)) == len(told(journal, Submitted)) == 3
    assert run(["submit", long]) == 2
    assert "only one job at a time may use a checkpoint folder" in capsys.readouterr().err
    wait_until(lambda: {status_of(journal, name) for name in ("one", "two")} == {"succeeded"})
    assert run(["cancel", "long"]) == 0
    assert "no controller" not in capsys.readouterr().err
    wait_until(lambda: status_of(journal, "long") == "cancelled")

    assert submitted(long) == "long-2"
    wait_until(lambda: progressed(journal, "long-2", share=0.0))
    first.send_signal(signal.SIGTERM)
    out, err = first.communicate(timeout=SLOW_S)
    assert first.returncode == 0, err
    assert "not ended: long-2" in err
    assert workers_of(tmp_path) == []
    for words in (r"one +engine +the job succeeded", r"refused the submission", "stopping: the workers"):
        assert re.search(words, out), words
    assert run(["jobs"]) == 0
    assert "no controller is running" in capsys.readouterr().err

    last = controller(*FROM_THE_START)
    wait_until(lambda: status_of(journal, "long-2") == "running")
    assert run(["cancel", "long-2"]) == 0
    wait_until(lambda: status_of(journal, "long-2") == "cancelled")
    last.terminate()
    last.communicate(timeout=SLOW_S)
    assert last.returncode == 0
    assert run(["cost"]) == 0, "no gap and no overlap, over all jobs and both controllers"


def test_what_is_submitted_without_a_controller_waits_for_one(
    journal: Path, tmp_path: Path, controller: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, counting(60), name="early")
    assert run(["submit", job, "--key", "k"]) == 101
    out, err = capsys.readouterr()
    assert out == "k\n"
    assert "no controller is running on this journal; the request waits there" in err
    assert run(["submit", job, "--key", "k", "--no-wait", "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"key": "k", "job": None}
    check_documented("slacktide submit", set(printed))
    assert run(["jobs"]) == 0
    assert f"waiting to be accepted: {job} (key k)" in capsys.readouterr().err
    controller(*FROM_THE_START)
    assert submitted(job, "--key", "k") == "early"
    wait_until(lambda: status_of(journal, "early") == "succeeded")


def test_a_killed_controller_is_seen_to_be_gone_and_its_jobs_are_taken_up(
    journal: Path, tmp_path: Path, controller: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    first = controller(*FROM_THE_START)
    job = write_job(tmp_path, counting(100_000), name="long")
    assert submitted(job) == "long"
    wait_until(lambda: progressed(journal, "long", share=0.0))
    first.kill()
    first.communicate(timeout=SLOW_S)
    wait_until(lambda: not is_held(journal))
    assert run(["submit", write_job(tmp_path, counting(60), name="next"), "--key", "k"]) == 101
    assert run(["cancel", "long"]) == 0
    assert capsys.readouterr().err.count("no controller is running") == 2
    controller(*FROM_THE_START)
    wait_until(lambda: len(told(journal, Opened)) == 2)
    wait_until(lambda: status_of(journal, "long") == "cancelled")
    wait_until(lambda: "next" in state_of(journal).jobs and status_of(journal, "next") == "succeeded")


def test_refusals_exit_with_their_own_code_and_reason(
    journal: Path, tmp_path: Path, controller: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("name: wrong\nwork: much\n", encoding="utf-8")
    assert run(["submit", str(wrong)]) == 2
    assert "wrong.yaml:2:7: work" in capsys.readouterr().err
    assert run(["submit", write_job(tmp_path, "true", deadline="1m")]) == 3
    assert "cannot be met" in capsys.readouterr().err
    assert not journal.exists(), "what can be seen to be wrong is never asked for"

    controller()
    assert run(["submit", write_job(tmp_path, "true"), "--pool", "nowhere"]) == 2
    err = capsys.readouterr().err
    (refused,) = told(journal, SubmissionRefused)
    assert isinstance(refused, SubmissionRefused)
    assert err == f"slacktide: error: {refused.why}\n"
    assert run(["submit", write_job(tmp_path, "true", deadline="9000h")]) == 2
    assert "must cover the deadline" in capsys.readouterr().err
    assert run(["submit", write_job(tmp_path, "true"), "--class", "small"]) == 2
    assert "start the controller with --fleet" in capsys.readouterr().err


def test_another_process_may_submit_while_a_run_is_in_charge(journal: Path, tmp_path: Path) -> None:
    first = started("run", write_job(tmp_path, counting(100_000)), "--speed", SPEED, *FROM_THE_START)
    wait_until(lambda: progressed(journal, share=0.0))
    assert submitted(write_job(tmp_path, counting(60), name="guest")) == "guest"
    wait_until(lambda: status_of(journal, "guest") == "succeeded")
    assert run(["cancel", "counting"]) == 0
    out, err = first.communicate(timeout=SLOW_S)
    assert first.returncode == 103, err
    assert re.search(r"guest +engine +the job succeeded", out)
    assert "counting was cancelled: $" in out
    assert "guest succeeded: $" not in out, "the bill is of the run's own jobs"


def test_a_run_takes_up_submissions_that_wait_and_they_can_be_withdrawn(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in ("one", "two", "three"):
        more = ["--pool", "nowhere"] if key == "three" else []
        assert run(["submit", write_job(tmp_path, "true", name=key), "--key", key, "--no-wait", *more]) == 0
    capsys.readouterr()
    assert run(["cancel", "two"]) == 0
    assert capsys.readouterr().out == "withdrew the submission two\n"
    assert run(["cancel", "tow"]) == 102
    assert run(["run", "--resume", "--speed", SPEED]) == 0
    out, err = capsys.readouterr()
    assert "one succeeded: $" in out
    assert f"refused {tmp_path / 'three.yaml'} (key three): " in err
    assert list(state_of(journal).jobs) == ["one"]
    assert run(["run", "--resume"]) == 2
    assert "an unfinished job must exist, but all have" in capsys.readouterr().err
    assert run(["submit", write_job(tmp_path, "true", name="two"), "--key", "two"]) == 103
    assert "withdrawn by the user" in capsys.readouterr().err
