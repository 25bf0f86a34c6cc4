"""`slacktide measure` with real workers: their pace, their starts, and a file whose comments stay."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from slacktide.cli import run
from slacktide.files.job import read_job_file

from .parts_of_runs import ROOT, later, wait_until, workers_of

LOOP = ROOT / "examples" / "loop" / "train.py"
JOB = """\
# what is measured
name: measured
run: {command}
resources: {{accelerators: "H100:{{1,2}}"}}
work: 99 gpu-hours      # a guess
speedup:                # another one
  amdahl: 0.5
# between
deadline: 100d
checkpoint: {{dir: real, every: 10m, grace: 5s}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def write_job(folder: Path, *command: object) -> str:
    path = folder / "job.yaml"
    text = shlex.join(map(str, (sys.executable, *command)))
    path.write_text(JOB.format(command=json.dumps(text)), encoding="utf-8")
    return str(path)


def measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["measure", *arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_job_is_measured_at_each_width_and_its_file_keeps_its_comments(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(home, LOOP, "--steps", 4000, "--every", 5, "--step-seconds", 0.02)
    before = Path(job).read_text(encoding="utf-8")
    found = measured(capsys, job, "--widths", "1,2", "--minutes", "0.02")
    assert Path(job).read_text(encoding="utf-8") == before
    assert not (home / "real").exists(), "the job's real checkpoints were touched"
    one, two = found["widths"]
    assert (one["gpus"], two["gpus"]) == (1, 2)
    assert one["speedup"] == pytest.approx(1.0)
    assert two["speedup"] == pytest.approx(two["share_per_hour"] / one["share_per_hour"])
    # 4,000 steps of at least 20 ms on one worker; a busy machine may take longer, but never less
    assert found["work_gpu_hours"] > 0.9 * 4000 * 0.02 / 3600
    assert two["share_per_hour"] < 1.1 * 2 * 3600 / (4000 * 0.02)
    assert all(width["restart_hours"] < 100 / 3600 for width in found["widths"])
    assert found["lines"][0].startswith("work: ")
    assert workers_of(home) == []
    assert {path.name for path in home.iterdir()} <= {"job.yaml", "home"}, "something was left behind"


def test_write_changes_three_keys_and_nothing_else(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = write_job(home, LOOP, "--steps", 150, "--every", 3, "--step-seconds", 0.01)
    assert run(["measure", job, "--write", "--minutes", "0.05", "--speed", "60"]) == 0
    out = capsys.readouterr().out
    text = Path(job).read_text(encoding="utf-8")
    for kept in ("# what is measured\n", "  # a guess\n", "\n# between\ndeadline: 100d\n", "every: 10m"):
        assert kept in text
    for key in ("work", "speedup", "restart"):
        (line,) = [line for line in out.splitlines() if line.startswith(f"{key}: ")]
        assert line.split("  # ")[0] in text
    assert "amdahl" not in text
    file = read_job_file(job)
    # It is done within its minutes, at every width, and each begins anew.
    assert file.job.work_gpu_hours > 0.9 * 150 * 0.01 * 60 / 3600
    # On a busy machine two workers may seem more than twice as fast, which a speedup irons out.
    assert "{table: {1: 1," in text
    assert file.job.restart_hours > 0


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        (
            "import sys; print('no data'); sys.exit(3)",
            1,
            "rank 0 exited with 3; its last output:\nno data",
        ),
        ("pass", 2, "must report growing progress at least 4 times at each width, got 0"),
    ],
)
def test_a_job_that_cannot_be_measured_is_told_why(
    script: str, code: int, words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(home, "-c", script)
    assert run(["measure", job, "--widths", "1", "--minutes", "0.01"]) == code
    assert words in capsys.readouterr().err
    assert workers_of(home) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--widths", "3"), "widths must be some of the job file's (1 to 2), got 3"),
        (("--widths", "one"), "--widths must be whole numbers of GPUs, such as 1,2,4, got 'one'"),
        (("--widths", "0"), "--widths must be whole numbers of GPUs"),
        (("--minutes", "0"), "--minutes must be > 0"),
        (("--speed", "nan"), "--speed must be > 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: tuple[str, ...], words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(home, "-c", "pass")
    assert run(["measure", job, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_ctrl_c_leaves_no_worker(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = write_job(home, LOOP, "--steps", 100_000, "--step-seconds", 0.01)
    asking = later(
        lambda: wait_until(lambda: workers_of(home) != []), lambda: os.kill(os.getpid(), signal.SIGINT)
    )
    assert run(["measure", job, "--minutes", "60"]) == 130
    asking.join()
    assert workers_of(home) == []
