"""The examples for transformers, Accelerate and Lightning: stopped, killed, and gone on at another width."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import free_port
from .parts_of_runs import PATIENCE_S, ROOT

pytestmark = pytest.mark.slow

STEPS, EVERY = 60, 10
SLOW, FAST = "0.1", "0"


class Nursery:
    """A process that has imported what scripts need, and forks them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("nursery.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **order: Any) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(PATIENCE_S)


class Attempts:
    """A script and its folder, and the workers of its present attempt."""

    def __init__(self, nursery: Nursery, script: Path, folder: Path) -> None:
        self._nursery, self._script, self._folder = nursery, script, folder
        self._attempt = 0
        self.pids: list[int] = []
        folder.mkdir()

    def start(self, width: int, pace: str) -> None:
        self._attempt += 1
        port = free_port()
        self.pids = [self._join(rank, width, port, pace) for rank in range(width)]

    def _join(self, rank: int, width: int, port: int, pace: str) -> int:
        variables = {
            "RANK": rank, "WORLD_SIZE": width, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo",
            "SLACKTIDE_ATTEMPT": self._attempt, "SLACKTIDE_CHECKPOINT_DIR": self._folder / "ckpt",
            "SLACKTIDE_PROGRESS": self._folder / "progress.jsonl", "OMP_NUM_THREADS": 1,
        }  # fmt: skip
        given = ("--steps", STEPS, "--every", EVERY, "--step-seconds", pace)
        pid = self._nursery.ask(
            script=str(self._script),
            arguments=list(map(str, given)),
            variables={name: str(value) for name, value in variables.items()},
            folder=str(self._folder),
            log=str(self._folder / f"attempt-{self._attempt}-rank-{rank}.log"),
        )
        return int(pid)

    def codes(self) -> list[int]:
        return [int(self._nursery.ask(wait=pid)) for pid in self.pids]

    def lines(self) -> list[dict[str, Any]]:
        path = self._folder / "progress.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    def wait_for_share(self, least: float) -> None:
        until = time.monotonic() + PATIENCE_S
        while not any(line["checkpointed"] >= least for line in self.lines()):
            assert time.monotonic() < until, self.logs()
            time.sleep(0.02)

    def steps(self) -> list[int]:
        """Return the step after which each worker of the last attempt said it ended."""
        logs = sorted(self._folder.glob(f"attempt-{self._attempt}-rank-*.log"))
        last = [log.read_text().splitlines()[-1] for log in logs]
        assert all(" of " in line for line in last), self.logs()
        return [int(line.split()[3]) for line in last]

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(self._folder.glob("*.log")))


Make = Callable[..., Attempts]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.end()


@pytest.fixture
def attempts(nursery: Nursery, tmp_path: Path) -> Iterator[Make]:
    made: list[Attempts] = []

    def make(example: str, folder: str) -> Attempts:
        made.append(Attempts(nursery, ROOT / "examples" / example / "train.py", tmp_path / folder))
        return made[-1]

    yield make
    for job in made:
        for pid in job.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@pytest.mark.parametrize(
    ("example", "library"),
    [
        ("accelerate", "accelerate"),
        ("transformers", "transformers:Trainer"),
        ("lightning", "lightning.pytorch"),
    ],
)
def test_a_preempted_training_goes_on_where_it_was(
    example: str, library: str, nursery: Nursery, attempts: Make
) -> None:
    for needed in ("torch", library.partition(":")[0].partition(".")[0]):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"needs {needed}: slacktide[trainers]")
    for slow in ("torch._dynamo", library):  # the first optimizer would import it in every fork
        nursery.ask(**{"import": slow})
    job = attempts(example, "interrupted")
    job.start(2, SLOW)
    job.wait_for_share(EVERY / STEPS)
    os.kill(job.pids[1], signal.SIGTERM)  # one is told, both stop after the same step
    assert job.codes() == [0, 0], job.logs()
    stopped, other = job.steps()
    assert EVERY <= stopped == other < STEPS
    assert job.lines()[-1]["done"] == job.lines()[-1]["checkpointed"] == pytest.approx(stopped / STEPS)

    said = len(job.lines())
    job.start(1, SLOW)
    job.wait_for_share((stopped // EVERY + 1) * EVERY / STEPS)
    os.kill(job.pids[0], signal.SIGKILL)  # without notice
    assert job.codes() == [-signal.SIGKILL]
    again = job.lines()[said:]
    assert again[0]["done"] >= stopped / STEPS, "the work was begun anew"

    kept = again[-1]["checkpointed"]
    said = len(job.lines())
    job.start(1, FAST)
    assert job.codes() == [0], job.logs()
    assert job.steps() == [STEPS]
    assert job.lines()[said]["done"] >= kept
    assert job.lines()[-1]["done"] == 1.0
    losses = [line["metrics"]["loss"] for line in job.lines() if "loss" in line.get("metrics", {})]
    assert losses[-1] < 0.5 * losses[0]
