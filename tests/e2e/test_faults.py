"""What goes wrong with real jobs is answered: broken commands, folders, journals, traces, names, hangs."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.journal.events import Decided, Stalled, WorkerFailed
from slacktide.journal.state.journal_state import JobRecord
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import (
    SPEED,
    counting,
    later,
    progressed,
    state_of,
    wait_until,
    workers_of,
    write_job,
    write_table,
)


def python(code: str) -> str:
    """Return the command that runs a few lines of Python, as it stands in a YAML file."""
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def told(journal: Path, *kinds: type) -> list[object]:
    with SqliteStore(journal) as store:
        return [record.event for record in store.read() if isinstance(record.event, kinds)]


def only(journal: Path) -> JobRecord:
    (record,) = state_of(journal).jobs.values()
    return record


def test_a_job_that_crashes_at_once_is_tried_again_and_given_up(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, "exit 3", more="retries: {failures: 1}\n")
    assert run(["run", job, "--speed", "600"]) == 100
    assert len(told(journal, WorkerFailed)) == 2
    assert only(journal).status == "failed"
    assert "exited with 3" in capsys.readouterr().out


def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(journal: Path, tmp_path: Path) -> None:
    deaf = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    job = write_job(tmp_path, f'"{python(deaf)}"'.replace('""', '"'))
    text = Path(job).read_text(encoding="utf-8").replace("grace: 5s", "grace: 1s")
    Path(job).write_text(text, encoding="utf-8")
    asked = later(
        lambda: wait_until(lambda: len(workers_of(tmp_path)) >= 3),
        lambda: run(["cancel", "counting"]),
    )
    assert run(["run", job, "--speed", "600"]) == 103
    asked.join()
    assert only(journal).status == "cancelled"


def test_a_checkpoint_folder_that_cannot_be_written_is_refused(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ckpt-counting").write_text("a file stands in its place", encoding="utf-8")
    assert run(["run", write_job(tmp_path, "true"), "--speed", SPEED]) == 2
    assert "checkpoint folder must be writable" in capsys.readouterr().err
    assert not state_of(journal).jobs


def test_a_workdir_that_is_not_there_is_refused(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", write_job(tmp_path, "true", more="workdir: nowhere\n"), "--speed", SPEED]) == 2
    assert "workdir must be a folder" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["torn", "foreign"])
def test_a_journal_that_is_none_is_refused_and_left_alone(
    kind: str, journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "foreign":
        with sqlite3.connect(journal) as other:
            other.execute("CREATE TABLE recipes (name TEXT)")
        other.close()
    else:
        journal.write_bytes(b"SQLite format 3\0" + os.urandom(3000))
    before = journal.read_bytes()
    assert run(["run", write_job(tmp_path, "true"), "--speed", SPEED]) == 2
    assert str(journal) in capsys.readouterr().err
    assert journal.read_bytes() == before


def test_a_trace_that_ends_before_the_deadline_is_refused(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, "true")
    write_table(tmp_path / "market.csv", 20)
    assert run(["run", job, "--speed", SPEED]) == 2
    assert "the market must cover the deadline of 60 h" in capsys.readouterr().err


def test_a_job_that_outlives_its_trace_goes_on_on_demand_and_is_late(journal: Path, tmp_path: Path) -> None:
    job = write_job(tmp_path, counting(2000), deadline="5h")
    write_table(tmp_path / "market.csv", 10)
    assert run(["run", job, "--speed", "7200"]) == 100
    record = only(journal)
    assert record.status == "deadline_missed"
    decided = [event for event in told(journal, Decided) if isinstance(event, Decided)]
    past = [event for event in decided if event.slot + record.submitted.start_slot >= 10]
    assert past
    assert all(event.spot_gpus == 0 and event.on_demand_gpus > 0 for event in past)


def test_a_hung_job_is_noticed(journal: Path, tmp_path: Path) -> None:
    reports_once = r"""printf '{"done":0.1}\n' >> "$SLACKTIDE_PROGRESS"; sleep 600"""
    job = write_job(tmp_path, reports_once, more="hang_after: 1s\nretries: {failures: 0}\n")
    assert run(["run", job, "--speed", "600"]) == 100
    assert told(journal, Stalled)
    assert only(journal).status == "failed"


def test_a_second_controller_is_refused_politely(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, counting(100_000))
    command = [sys.executable, "-m", "slacktide", "run", job, "--speed", "600"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
        wait_until(lambda: progressed(journal, share=0.0))
        assert run(["run", job]) == 4
        assert f"pid {first.pid}" in capsys.readouterr().err
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 101


@pytest.mark.parametrize("name", ["a b", "$(touch pwned)", "../up", "x;y", "-rf", "ü"])
def test_odd_names_are_refused(
    name: str, journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Path(write_job(tmp_path, "true"))
    text = job.read_text(encoding="utf-8").replace("name: counting", f"name: {name!r}")
    job.write_text(text, encoding="utf-8")
    assert run(["run", str(job), "--speed", SPEED]) == 2
    assert "must be 1 to 63 letters" in capsys.readouterr().err


def test_odd_texts_reach_the_job_as_they_are(journal: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s a "folder"; $(touch pwned)'
    folder.mkdir()
    value = "$(touch pwned) `touch pwned` '\"; touch pwned; #"
    code = "import os; open('seen', 'w').write(os.environ['ODD'] + os.environ['HIDDEN'] + os.getcwd())"
    job = Path(write_job(folder, f">-\n  {python(code)}"))
    quoted = value.replace("'", "''")
    more = f"envs: {{ODD: '{quoted}'}}\nsecrets: {{HIDDEN: s3cr3t}}\nworkdir: .\n"
    job.write_text(job.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert run(["run", str(job), "--speed", SPEED]) == 0
    assert (folder / "seen").read_text(encoding="utf-8") == value + "s3cr3t" + str(folder)
    assert not list(tmp_path.rglob("pwned"))
    with SqliteStore(journal) as store:
        assert not any("s3cr3t" in str(record.event) for record in store.read())
    assert b"s3cr3t" not in journal.read_bytes()
