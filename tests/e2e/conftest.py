"""Training jobs as Slacktide runs them: one process per GPU, with the variables it gives to each."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from .parts_of_runs import workers_of
from .parts_of_servers import Server


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A journal of one's own; whatever the test did, no worker is left."""
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLACKTIDE_JOURNAL", str(tmp_path / "journal.db"))
    yield tmp_path / "journal.db"
    left = workers_of(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == [], "workers were left behind"


@pytest.fixture
def server(journal: Path) -> Iterator[Server]:
    """A server of the test's journal, which is up."""
    made = Server(journal, "--speed", "3600", "--start", "0")
    made.start()
    yield made
    made.stop()


class TrainingJob:
    """A job's folder, its attempts one after another, and the workers of the present one."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.command = [sys.executable, *command]
        self.folder = folder
        self.checkpoints = folder / "ckpt"
        self.progress = folder / "progress.jsonl"
        self.attempt = 0
        self.port = 0
        self.workers: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, width: int, *options: str, port: int | None = None, absent: Sequence[int] = ()) -> None:
        """Start a new attempt of so many workers, leaving out those that shall never come."""
        self.attempt += 1
        self.port = port or free_port()
        self.workers = []
        for rank in range(width):
            if rank not in absent:
                self.join(rank, width, *options)

    def join(self, rank: int, width: int, *options: str) -> None:
        """Start one worker of the present attempt."""
        variables = {
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": width, "LOCAL_WORLD_SIZE": width,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port, "OMP_NUM_THREADS": 1,
            "SLACKTIDE_ATTEMPT": self.attempt, "SLACKTIDE_CHECKPOINT_DIR": self.checkpoints,
            "SLACKTIDE_PROGRESS": self.progress, "SLACKTIDE_GRACE_SECONDS": 10,
        }  # fmt: skip
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        with (self.folder / f"attempt-{self.attempt}-rank-{rank}.log").open("wb") as log:
            worker = subprocess.Popen(
                [*self.command, *options],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.workers.append(worker)

    def send(self, number: signal.Signals, *ranks: int) -> None:
        """Send a signal to some workers, or to all."""
        for rank in ranks or range(len(self.workers)):
            self.workers[rank].send_signal(number)

    def codes(self, seconds: float = 60) -> list[int]:
        """Wait until every worker has ended; return the exit codes in the order of ranks."""
        until = time.monotonic() + seconds
        codes = [worker.wait(max(0.1, until - time.monotonic())) for worker in self.workers]
        self.check_progress()
        return codes

    def lines(self) -> list[dict[str, Any]]:
        """Return what was told so far; a line that is still being written does not count."""
        if not self.progress.exists():
            return []
        return [json.loads(line) for line in self.progress.read_bytes().split(b"\n")[:-1]]

    def wait_for_line(self, condition: Callable[[dict[str, Any]], bool], seconds: float = 60) -> None:
        """Wait until this attempt tells a line of which a condition holds."""
        first = len(self.lines())
        until = time.monotonic() + seconds
        while not any(condition(line) for line in self.lines()[first:]):
            ended = [worker.poll() for worker in self.workers]
            assert ended.count(None) == len(ended), f"ended too soon: {ended}\n{self.logs()}"
            assert time.monotonic() < until, self.logs()
            self.check_progress()
            time.sleep(0.02)

    def check_progress(self) -> None:
        """Every line keeps to the format, and none promises a checkpoint that is not there."""
        lines = self.lines()
        for line in lines:
            assert set(line) == {"done", "checkpointed", "metrics"}
            assert 0 <= line["checkpointed"] <= line["done"] <= 1
            assert all(isinstance(value, float) for value in line["metrics"].values())
        if lines:  # read before the folder, so what it promises must be there by now
            assert lines[-1]["checkpointed"] <= self.newest_share(), self.logs()

    def newest_share(self) -> float:
        """Return the share of the work in the newest checkpoint, by the names of the files."""
        steps = int(self.command[self.command.index("--steps") + 1])
        names = [path.stem for path in self.checkpoints.glob("step-*")]
        return max((int(name.removeprefix("step-")) / steps for name in names), default=0.0)

    def logs(self) -> str:
        """Return what all workers said, for the message of a test that fails."""
        return "\n".join(f"{p.name}: {p.read_text()}" for p in sorted(self.folder.glob("*.log")))

    def end(self) -> None:
        """Kill what still runs."""
        for worker in self.workers:
            worker.kill()
            worker.wait()


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def training_job(tmp_path: Path) -> Iterator[Callable[..., TrainingJob]]:
    """Make jobs of a command, each in a folder of its own; none leaves a process behind."""
    jobs: list[TrainingJob] = []

    def make(*command: str) -> TrainingJob:
        jobs.append(TrainingJob(command, tmp_path / f"job-{len(jobs)}"))
        return jobs[-1]

    yield make
    for job in jobs:
        job.end()
