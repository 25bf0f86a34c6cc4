"""The example jobs under `slacktide run`: preempted twice, they end with the loss of a run that was not."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slacktide.backends.workers.job_folder import progress_path
from slacktide.cli import run
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.paths import runs_of

from .parts_of_runs import ROOT, later, state_of, wait_until, write_job

NUMPY = (sys.executable, "-m", "slacktide.demo.train", "--steps", "400", "--checkpoint-every", "20")
LORA = (
    sys.executable, str(ROOT / "examples" / "lora" / "train.py"), "--steps", "60", "--checkpoint-every", "6",
)  # fmt: skip
LOOP = (sys.executable, str(ROOT / "examples" / "loop" / "train.py"), "--steps", "200", "--every", "10")
PACE = ("--step-seconds", "0.02", "--parallel-share", "0.5")
SLOW_PACE = ("--step-seconds", "0.2", "--parallel-share", "0.5")


def is_answered(state: JournalState) -> bool:
    """Say whether the engine has done what was asked, or the job ended before it could."""
    return state.jobs["counting"].requests.preemption is None or not state.active


def last_line(progress: Path) -> dict[str, object]:
    """Return the last thing that a job said of its progress."""
    said: dict[str, object] = json.loads(progress.read_text(encoding="utf-8").splitlines()[-1])
    return said


def share_done(progress: Path) -> float:
    if not progress.exists():
        return 0.0
    lines = progress.read_text(encoding="utf-8").splitlines()
    return max((float(json.loads(line)["done"]) for line in lines), default=0.0)


def loss(said: dict[str, object]) -> float:
    metrics = said["metrics"]
    assert isinstance(metrics, dict)
    return float(metrics["loss"])


def alone(command: tuple[str, ...], folder: Path) -> float:
    """Train without Slacktide and without interruption; return the loss."""
    folder.mkdir()
    progress = folder / "progress.jsonl"
    given = {
        **os.environ,
        "SLACKTIDE_CHECKPOINT_DIR": str(folder / "ckpt"),
        "SLACKTIDE_PROGRESS": str(progress),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run(command, check=True, env=given, capture_output=True, timeout=300)
    return loss(last_line(progress))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "pace", "tolerance"),
    [(NUMPY, PACE, 1e-9), (LORA, SLOW_PACE, 1e-4), (LOOP, PACE[:2], 1e-9)],
    ids=["numpy", "lora", "loop"],
)
def test_a_preempted_job_learns_what_one_that_was_not_does(
    command: tuple[str, ...], pace: tuple[str, ...], tolerance: float, journal: Path, tmp_path: Path
) -> None:
    if command is LORA and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed; 'make test' installs it")
    job = write_job(tmp_path, f'"{shlex.join([*command, *pace])}"')
    progress = progress_path(runs_of(journal) / "counting")
    taking = later(
        *(
            step
            for share in (0.1, 0.3)
            for step in (
                lambda share=share: wait_until(lambda: share_done(progress) > share),
                lambda: run(["preempt", "counting"]),
                lambda: wait_until(lambda: is_answered(state_of(journal))),
            )
        )
    )
    assert run(["run", job, "--speed", "900"]) == 0
    taking.join()
    record = state_of(journal).jobs["counting"]
    assert record.holding.preemptions == 2
    assert record.holding.starts >= 3
    said = last_line(progress)
    assert said["done"] == 1.0
    assert loss(said) == pytest.approx(alone(command, tmp_path / "alone"), rel=tolerance)
