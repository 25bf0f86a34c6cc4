"""Scripts that know nothing of Slacktide, through the command line: run, preempted, billed honestly."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.cli import run

from .parts_of_runs import SPEED, later, state_of, wait_until, write_table

SCRIPT = """\
name: {name}
run: |
  {run}
resources: {{accelerators: "H100:1..3"}}
work: 12 gpu-hours
deadline: 200h
policy: uniform-progress
hang_after: 1s
market: market.csv
"""
WAITS = "until [ -e go ]; do sleep 0.05; done"


def write(folder: Path, command: str, name: str = "script", more: str = "") -> str:
    write_table(folder / "market.csv", 600)
    path = folder / f"{name}.yaml"
    path.write_text(SCRIPT.format(name=name, run=command) + more, encoding="utf-8")
    return str(path)


def test_a_script_that_knows_nothing_is_preempted_and_billed(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost() -> bool:
        return state_of(journal).jobs["script"].progress.lost_gpu_hours > 0

    def listed() -> None:
        run(["jobs"])
        (tmp_path / "go").touch()

    asking = later(
        lambda: wait_until(
            lambda: "script" in state_of(journal).jobs and state_of(journal).jobs["script"].progress.estimated
        ),
        lambda: wait_until(lambda: state_of(journal).jobs["script"].progress.state.progress_gpu_hours > 0),
        lambda: run(["preempt", "script", "--gpus", "1"]),
        lambda: wait_until(lost),
        listed,
    )
    assert run(["run", write(tmp_path, WAITS), "-y", "--speed", SPEED]) == 0
    asking.join()
    out = capsys.readouterr().out
    record = state_of(journal).jobs["script"]
    assert (record.status, record.progress.failures) == ("succeeded", 0), "who never reports cannot hang"
    assert "GPU-hours of work lost" in out
    assert "estimated from time and width" in out
    assert "(est.)" in out
    assert "no work lost" not in out


def test_progress_is_found_in_what_a_script_prints(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def heard() -> bool:
        record = state_of(journal).jobs.get("script")
        return record is not None and record.progress.reported_gpu_hours == pytest.approx(3.0)

    asking = later(lambda: wait_until(heard), (tmp_path / "go").touch)
    job = write(tmp_path, f"echo step 5/20; {WAITS}", more="progress: {log: 'step (\\d+)/(\\d+)'}\n")
    text = Path(job).read_text(encoding="utf-8").replace("hang_after: 1s", "hang_after: never")
    Path(job).write_text(text, encoding="utf-8")
    assert run(["run", job, "-y", "--speed", SPEED]) == 0
    asking.join()
    assert "estimated from time" not in capsys.readouterr().out


def test_two_jobs_do_not_share_a_checkpoint_folder_by_accident(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = (
        write(tmp_path, "true", name, f"checkpoint: {{dir: {folder}}}\n")
        for name, folder in (("one", "ckpt"), ("two", "./ckpt"), ("three", "ckpt, shared: true"))
    )
    assert run(["run", one, two, "-y", "--speed", SPEED]) == 2
    answer = capsys.readouterr().err
    assert "only one job at a time may use a checkpoint folder, but one has not ended" in answer
    assert "shared: true" in answer
    assert run(["run", one, three, "-y", "--speed", SPEED]) == 0
