"""The NumPy job's laws: gradients, samples at any width, checkpoints that are whole or not used."""

from __future__ import annotations

import ast
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.core.speedup import Amdahl
from slacktide.demo import train
from slacktide.demo.train import BATCH, ROWS, BadTrainingInput, Options, RankPlace, Shelf, TrainingState
from slacktide.files.job import read_job_file

SCRIPT = Path(train.__file__)
ROOT = Path(__file__).parents[3]


def place(rank: int, width: int) -> RankPlace:
    return RankPlace(rank, width, "127.0.0.1", 1, 1)


def test_gradient_is_the_slope_of_the_loss() -> None:
    weights, (points, arm) = TrainingState.first(1).weights, train.spirals(1)
    points, arm, epsilon = points[:7], arm[:7], 1e-6
    found = train.gradient(weights, points, arm)
    for index in range(0, weights.size, 11):
        move = epsilon * (np.arange(weights.size) == index)
        above, below = (train.outputs(weights + sign * move, points)[1] for sign in (1, -1))
        slope = -(above - below)[np.arange(7), arm].sum() / (2 * epsilon)
        assert found[index] == pytest.approx(slope, rel=1e-5, abs=1e-7)


@settings(deadline=None, max_examples=40)
@given(width=st.integers(1, 2 * BATCH), step=st.integers(0, 100), seed=st.integers(0, 99))
def test_parts_of_all_ranks_make_the_same_gradient_at_any_width(width: int, step: int, seed: int) -> None:
    weights = TrainingState.first(seed).weights
    alone = train.gradient(weights, *train.samples(seed, step, place(0, 1)))
    parts = [train.gradient(weights, *train.samples(seed, step, place(r, width))) for r in range(width)]
    np.testing.assert_allclose(sum(parts), alone, rtol=1e-10, atol=1e-12)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 99), epoch=st.integers(0, 5))
def test_an_epoch_uses_every_sample_once(seed: int, epoch: int) -> None:
    steps = range(epoch * ROWS // BATCH, (epoch + 1) * ROWS // BATCH)
    seen = np.concatenate([train.samples(seed, step, place(0, 1))[0] for step in steps])
    assert sorted(map(tuple, seen)) == sorted(map(tuple, train.spirals(seed)[0]))


@given(share=st.floats(0, 1), width=st.integers(1, 64))
def test_pace_is_the_products_own_amdahl(share: float, width: int) -> None:
    options = Options(1, 0.3, share, 1, 1, 1.0)
    assert options.pace_s(width) == pytest.approx(0.3 / Amdahl(share)(width))


def test_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    state = train.updated(TrainingState.first(4), np.ones_like(TrainingState.first(4).weights))
    Shelf(tmp_path, 4).save(state)
    found = Shelf(tmp_path, 4).newest()
    assert found is not None
    assert found.step == 1
    np.testing.assert_array_equal(found.vector(), state.vector())


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "zeros", "longer"])
def test_damaged_checkpoint_is_never_used(tmp_path: Path, damage: str) -> None:
    shelf, first = Shelf(tmp_path, 4), TrainingState.first(4)
    for step in (10, 20, 30):
        shelf.save(first._replace(step=step))
    newest = max(tmp_path.iterdir())
    data = newest.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    made = {
        "empty": b"",
        "cut": data[:-1],
        "flipped": flipped,
        "zeros": bytes(len(data)),
        "longer": data + b"x",
    }
    newest.write_bytes(made[damage])
    found = Shelf(tmp_path, 4).newest()
    assert found is not None
    assert found.step == 20
    assert not newest.exists()  # or it would count as one of the two that are kept


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, 4)
    for step in (5, 100, 1000):
        shelf.save(TrainingState.first(4)._replace(step=step))
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["step-000000100", "step-000001000"]


@pytest.mark.parametrize(("rank", "width"), [("2", "2"), ("-1", "2"), ("one", "2"), ("0", "0")])
def test_place_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, rank: str, width: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", width)
    with pytest.raises(BadTrainingInput, match="must be"):
        RankPlace.here()


def test_script_needs_nothing_but_numpy_and_the_module_for_workers() -> None:
    nodes = list(ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "numpy", "slacktide"}
    ours = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "slacktide"]
    assert [alias.name for node in ours for alias in node.names] == ["worker"]


def test_script_runs_by_its_path_and_alone(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--steps", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith("100.0% done")
    assert (tmp_path / "checkpoints" / "step-000000003.ckpt").exists()


@pytest.mark.parametrize(
    "option", ["--steps=0", "--step-seconds=-1", "--parallel-share=2", "--step-seconds=nan"]
)
def test_bad_options_are_refused(tmp_path: Path, option: str) -> None:
    command = [sys.executable, str(SCRIPT), option]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "must be in" in done.stderr


def test_example_job_file_promises_what_the_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    job = read_job_file(ROOT / "examples" / "numpy" / "job.yaml")
    command = shlex.split(job.run or "")
    assert command[:3] == ["$SLACKTIDE_PYTHON", "-m", "slacktide.demo.train"]
    monkeypatch.setattr(sys, "argv", command[2:])
    options = Options.read()
    second = 3600 / 600  # the market's clock runs 600 times as fast as the wall's
    assert job.job.work_gpu_hours * second == pytest.approx(options.steps * options.step_seconds)
    assert job.job.speedup == Amdahl(options.parallel_share)
    assert job.job.checkpoint_hours * second == pytest.approx(options.checkpoint_every * options.step_seconds)


def test_a_stop_is_heard_while_a_worker_waits_to_re_form() -> None:
    script = """
import os, signal
from slacktide import worker
from slacktide.demo.train import Stop
stop = Stop(1.0)
os.kill(os.getpid(), signal.SIGTERM)
assert stop.requested and worker.stopping
"""
    subprocess.run([sys.executable, "-c", script], check=True)
