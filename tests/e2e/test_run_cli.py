"""`slacktide run` and its clients with real processes: jobs succeed, fail, are stopped, and go on."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.jobs.submission import Submission
from slacktide.cli import run
from slacktide.journal.events import Preempted, WorkerFailed
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import (
    ROOT,
    SPEED,
    counting,
    later,
    progressed,
    state_of,
    wait_until,
    workers_of,
    write_job,
)


def started(*arguments: str) -> subprocess.Popen[str]:
    """Start the command line in a process of its own."""
    command = [sys.executable, "-m", "slacktide", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def documented(section: str) -> str:
    """Return a section of the page about JSON."""
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    return text.split(f"## {section}\n")[1].split("\n## ")[0]


def check_documented(section: str, keys: set[str]) -> None:
    part = documented(section)
    assert not {key for key in keys if f"`{key}`" not in part}


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_job_succeeds_and_all_is_told(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, counting(250))
    picture, page = tmp_path / "run.png", tmp_path / "run.html"
    assert run(["run", job, "--speed", SPEED, "--plot", str(picture), "--report", str(page)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    for words in ("submitted counting", "holds 3 spot (+3 spot): ", "the job succeeded after"):
        assert any(words in line for line in lines), words
    for words in ("counting succeeded: $", "on demand alone", "clairvoyant", "12.0 of 12.0 GPU-hours"):
        assert words in out
    assert f"wrote {picture}" in err
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")

    (listed,) = json_of(capsys, "jobs")["jobs"]
    assert (listed["name"], listed["status"]) == ("counting", "succeeded")
    check_documented("slacktide jobs", set(listed))
    bill = json_of(capsys, "cost", "counting")
    assert bill["audit"]["clean"]
    assert f"${bill['cost_usd']:.2f}" in out
    check_documented("slacktide run", set(bill) - {"audit"})
    check_documented("slacktide cost", {"audit", *bill["audit"]})

    assert run(["cost", "counting"]) == 0
    assert "no gap, no overlap" in capsys.readouterr().out
    assert run(["jobs"]) == 0
    assert re.search(r"counting +succeeded +100 %", capsys.readouterr().out)


def test_a_dry_run_starts_nothing_and_is_billed_like_any_other(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, f"touch {tmp_path / 'started'}")
    assert run(["run", job, "--speed", "36000", "--backend", "replay"]) == 0
    assert "12.0 of 12.0 GPU-hours" in capsys.readouterr().out
    assert not (tmp_path / "started").exists()
    assert json_of(capsys, "cost", "counting")["audit"]["clean"]
    assert run(["logs", "counting"]) == 0
    assert capsys.readouterr().out == ""


def test_unfinished_jobs_stay_on_their_back_end(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, "true")
    setup = Setup(speed=1.0, backend="replay", learned=tmp_path / "learn.json")
    with Controller(journal, setup) as controller:
        controller.submit(Submission.read(job))
    assert run(["run", job, "--backend", "local"]) == 2
    assert "the back end must stay replay" in capsys.readouterr().err
    assert run(["run", job, "--backend", "lokal"]) == 2
    assert run(["cancel", "counting"]) == 0
    assert run(["run", "--resume"]) == 103
    assert state_of(journal).backend == "replay"
    assert run(["run", job, "--backend", "lokal"]) == 2
    assert "did you mean 'local'" in capsys.readouterr().err


def test_back_ends_are_listed_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json_of(capsys, "backends")
    assert {"local", "replay"} <= {one["name"] for one in listed}
    check_documented("slacktide backends", set(listed[0]))
    assert run(["backends"]) == 0
    assert "Processes of this machine" in capsys.readouterr().out
    assert run(["backends", "--check", "replay"]) == 0
    assert "replay keeps the contract" in capsys.readouterr().out


def test_events_and_logs_of_a_job_that_ended(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", write_job(tmp_path, "echo rank $RANK of $WORLD_SIZE"), "--speed", SPEED]) == 0
    capsys.readouterr()
    for arguments in (["events", "counting"], ["events", "counting", "-f"], ["events"]):
        assert run(arguments) == 0
        assert "the job succeeded" in capsys.readouterr().out
    assert run(["events", "counting", "-o", "json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [event["kind"] for event in events]
    assert (kinds[0], kinds[-1]) == ("Submitted", "Ended")
    always = set.intersection(*(set(event) for event in events))
    check_documented("slacktide events", always)
    assert run(["logs", "counting"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"1/{rank}   | rank {rank} of 3" for rank in range(3)
    ]
    assert run(["logs", "counting", "--rank", "1", "--attempt", "1", "-o", "json", "-f"]) == 0
    assert json.loads(capsys.readouterr().out) == {"attempt": 1, "rank": 1, "line": "rank 1 of 3"}
    check_documented("slacktide logs", {"attempt", "rank", "line"})


def test_preempted_on_request_then_cancelled(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def preempted() -> bool:
        return state_of(journal).jobs["counting"].holding.preemptions > 0

    asking = later(
        lambda: wait_until(lambda: progressed(journal, share=0.0)),
        lambda: run(["preempt", "counting", "--gpus", "1"]),
        lambda: wait_until(preempted),
        lambda: run(["cancel", "counting"]),
    )
    job = write_job(tmp_path, counting(100_000))
    assert run(["run", job, "--speed", SPEED]) == 103
    asking.join()
    out = capsys.readouterr().out
    for words in ("asked to preempt 1 spot GPUs", "user    took 1 of", "the job was cancelled"):
        assert words in out
    with SqliteStore(journal) as store:
        taken = [record.event for record in store.read() if isinstance(record.event, Preempted)]
    assert taken[0].actor == "user"
    assert run(["cancel", "counting"]) == 2
    assert "must not have ended" in capsys.readouterr().err
    assert run(["cost", "counting"]) == 0


def test_interrupted_then_taken_up_again(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, counting(700))
    first = started("run", job, "--speed", SPEED)
    wait_until(lambda: progressed(journal))
    assert run(["run", job, "--speed", SPEED]) == 4, "a second controller is refused"
    assert "already has a controller" in capsys.readouterr().err
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == 101, err
    assert "stopping: the workers checkpoint" in out
    assert "no longer holds GPUs" in out
    assert "counting has not ended" in out
    assert "`slacktide run --resume` continues" in err
    assert workers_of(tmp_path) == []

    assert run(["jobs"]) == 0
    assert "released" in capsys.readouterr().out
    assert run(["run", "--resume", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    (bill,) = json.loads(out)["jobs"]
    assert bill["status"] == "succeeded"
    assert "the job succeeded" in err, "lines go to stderr when stdout is for JSON"
    assert run(["cost", "counting"]) == 0, "no gap and no overlap over both controllers"
    began = (tmp_path / "ckpt-counting" / "step.log").read_text().splitlines()
    assert "began 0" in began
    assert len([line for line in began if line.startswith("began") and line != "began 0"]) >= 1


def test_sigterm_stops_as_ctrl_c_does(journal: Path, tmp_path: Path) -> None:
    first = started("run", write_job(tmp_path, counting(100_000)), "--speed", SPEED)
    wait_until(lambda: progressed(journal, share=0.0))
    first.terminate()
    first.communicate(timeout=60)
    assert first.returncode == 101
    assert run(["cancel", "counting"]) == 0
    assert run(["run", "--resume"]) == 103


def test_clients_follow_until_the_end(journal: Path, tmp_path: Path) -> None:
    first = started("run", write_job(tmp_path, counting(300)), "--speed", SPEED)
    wait_until(lambda: "counting" in state_of(journal).jobs)
    events, logs = started("events", "counting", "-f"), started("logs", "counting", "-f")
    told, printed, done = (process.communicate(timeout=90) for process in (events, logs, first))
    assert (events.returncode, logs.returncode, first.returncode) == (0, 0, 0), (told, printed, done)
    assert told[0].splitlines()[-1].endswith(done[0].split("the job succeeded")[1].splitlines()[0])


def test_a_command_that_does_not_exist_fails(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", write_job(tmp_path, "no-such-command-here"), "--speed", SPEED]) == 100
    out = capsys.readouterr().out
    assert "the command was not found or cannot be run" in out
    assert "counting failed: $" in out
    with SqliteStore(journal) as store:
        failures = [record.event for record in store.read() if isinstance(record.event, WorkerFailed)]
    assert len(failures) == 1, "retrying would end the same"


def test_money_ends_before_the_work(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, counting(100_000), more="max_cost: 60 usd\n")
    assert run(["run", job, "--speed", SPEED]) == 101
    assert "was stopped before it would cost more than its max_cost" in capsys.readouterr().out
    record = state_of(journal).jobs["counting"]
    assert record.money.bill.cost_usd <= 60.0


def test_two_jobs_run_side_by_side(journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [write_job(tmp_path, counting(60), name=name) for name in ("one", "two")]
    picture = tmp_path / "run.png"
    assert run(["run", *jobs, "--speed", SPEED, "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    for name in ("one", "two"):
        assert f"{name} succeeded: $" in out
        # They share three spot GPUs, so one of them may have to rent on demand.
        assert re.search(rf"  {name} +engine  .*holds [1-3] ", out)
        assert (tmp_path / f"run-{name}.png").exists()


def test_on_a_terminal_there_is_a_view(journal: Path, tmp_path: Path) -> None:
    job = write_job(tmp_path, counting(150))
    command = [sys.executable, "-m", "slacktide", "run", job, "-y", "--speed", SPEED]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="30")
        os.execv(command[0], command)
    shown = b"".join(_read_all(terminal)).decode()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, shown[-2000:]
    for words in ("GPUs held", "spot price", "3600 times as fast", "counting succeeded: $"):
        assert words in shown
    assert "\x1b[?25h" in shown, "the cursor is shown again"
    assert "Begin?" not in shown


def _read_all(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # what Linux says when the other end is closed
            part = b""
        if not part:
            os.close(terminal)
            return
        yield part


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run"], 2, "at least one job must be given"),
        (["run", "missing.yaml"], 2, "missing.yaml"),
        (["run", "--resume"], 2, "a journal to resume must exist, found none"),
        (["run", "JOB", "--resume"], 2, "a journal to resume must exist, found none"),
        (["run", "JOB", "--speed", "-1"], 2, "speed must be > 0"),
        (["run", "JOB", "--start", "100000"], 2, "start must leave 60 h of market"),
        (["run", "JOB", "--policy", "uniform-progres"], 2, "did you mean 'uniform-progress'"),
        (["jobs"], 2, "there must be a journal"),
        (["events", "x"], 2, "there must be a journal"),
        (["preempt", "x", "--gpus", "0"], 2, "0 is not in the range"),
    ],
)
def test_mistakes_are_answered(
    journal: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    job = write_job(tmp_path, "true")
    assert run([job if each == "JOB" else each for each in arguments]) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["events", "logs", "preempt", "cancel", "cost"])
def test_an_unknown_job_is_answered_with_a_guess(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(["run", write_job(tmp_path, "true"), "--speed", SPEED]) == 0
    assert run([command, "countin"]) == 102
    assert "did you mean 'counting'" in capsys.readouterr().err
