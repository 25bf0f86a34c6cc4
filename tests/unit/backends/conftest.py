"""A machine of its own for each test: real processes, a clock set by hand, and nothing left behind."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slacktide.backends.base import BackendPlace, BackendStatus, LaunchSpec
from slacktide.backends.local import Launch, Local, LocalProcesses, ProcessStatus
from slacktide.backends.process_table import SeenProcess, scan
from slacktide.core.types import Order
from slacktide.journal.events import Capacity
from tests.parts_of_files import pids_below

PATIENCE_S = 60.0
"""How long a test waits for the machine before it fails; far longer than anything takes."""


def wait_for(condition: Callable[[], object], step: Callable[[], object] = lambda: None) -> None:
    """Take steps until a condition holds; fails when the machine takes too long."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, "the machine took too long"
        step()
        time.sleep(0.003)


class Stage:
    """A controller, its folders and its clock, with words for what tests do again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = f"test-{uuid.uuid4().hex[:12]}"
        self.time_s = 1000.0
        self.processes = self.controller()

    def controller(self) -> LocalProcesses:
        """Return a new controller of the same owner, as after a restart."""
        return LocalProcesses(self.folder / "root", self.owner, now=lambda: self.time_s)

    def restart(self, keep: dict[str, int]) -> None:
        """Forget the controller, as if it had died, and let a new one sweep."""
        self.processes = self.controller()
        self.processes.sweep(keep)

    def register(self, run: str, job_id: str = "job", **more: Any) -> None:
        """Make a job known, with ordinary folders and an hour of grace."""
        own: dict[str, Any] = {"workdir": self.folder, "checkpoint_dir": self.folder / "checkpoints"}
        own |= {name: more.pop(name) for name in (*own, "secrets") if name in more}
        spec = LaunchSpec(job=job_id, run=run, **{"grace_s": 3600.0, **more})
        self.processes.register(Launch(spec=spec, **own))

    def hold(self, attempt: int, kinds: Sequence[Capacity], **more: Any) -> None:
        self.processes.hold("job", attempt, tuple(kinds), **more)

    def look(self) -> ProcessStatus:
        return self.processes.look("job")

    def until(self, condition: Callable[[], object]) -> None:
        """Tick until a condition holds."""
        wait_for(condition, self.processes.tick)

    def until_phase(self, phase: str, attempt: int | None = None) -> ProcessStatus:
        """Tick until a job is in a phase, of an attempt if given, and return what is seen then."""
        self.until(lambda: self.look().phase == phase and attempt in {None, self.look().attempt})
        return self.look()

    def until_file(self, name: str) -> str:
        """Tick until a worker has written a whole file, and return it."""
        path = self.folder / name
        self.until(lambda: path.exists() and path.read_text().endswith("\n"))
        return path.read_text()

    def strays(self) -> list[tuple[str, int, int]]:
        """Return the job, attempt and rank of every process that is to go and has not gone."""
        going = [(name, one) for name, job in self.processes._jobs.items() for one in job.going]
        present = [(name, one, worker) for name, one in going for worker in one.workers if worker.present]
        return [
            (name, one.attempt, worker.rank)
            for name, one, worker in present
            for _ in range(1 if worker.alive else len(worker.leftovers))
        ]

    def ticks(self, count: int = 20) -> None:
        """Tick for a moment in which nothing is to happen."""
        for _ in range(count):
            self.processes.tick()
            time.sleep(0.003)

    def log(self, rank: int = 0, attempt: int = 1) -> str:
        logs = {(log.attempt, log.rank): log.path for log in self.processes.logs("job")}
        return logs[attempt, rank].read_text()

    def marked(self) -> list[SeenProcess]:
        """Return every living process that this stage's workers started, also those that hide the marker."""
        leaders = pids_below(self.folder / "root", "*.pid")
        return [seen for seen in scan() if self._is_ours(seen, leaders)]

    def _is_ours(self, seen: SeenProcess, leaders: set[int]) -> bool:
        if seen.marker is None:
            return seen.session in leaders and seen.session != os.getsid(0)
        return seen.marker.startswith(f"{self.owner}/")


class Site:
    """A journal with a back end of local processes, whose facts are looked at as an engine would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "journal.runs"
        self.owner = uuid.uuid4().hex
        self.now_hours = 100.0
        self.secrets = {"TOKEN": "hush"}
        self.local = self.controller()

    def controller(self) -> Local:
        """Return a new controller of the same journal; an hour of the market is a second of the wall."""
        place = BackendPlace(
            folder=self.root,
            owner=self.owner,
            speed=3600.0,
            now_hours=lambda: self.now_hours,
            secrets=lambda job: self.secrets,
        )
        return Local(place)

    def enter(self, run: str, job: str = "job", **more: Any) -> None:
        given: dict[str, Any] = {"workdir": str(self.folder), "grace_s": 30.0, **more}
        self.local.enter(LaunchSpec(job=job, run=run, **given))

    def hold(self, attempt: int = 1, spot: int = 1, on_demand: int = 0, job: str = "job") -> None:
        self.local.hold(Order(job, attempt, "here", spot, on_demand))

    def begin(self, run: str, spot: int = 1, on_demand: int = 0, **more: Any) -> None:
        """Start the first attempt and wait until each worker has written the file `ready-RANK`."""
        self.enter(run, **more)
        self.hold(1, spot, on_demand)
        self.until_files(*(f"ready-{rank}" for rank in range(spot + on_demand)))

    def until_files(self, *names: str) -> None:
        """Look until workers have made these files."""
        self.until(lambda _: all((self.folder / name).exists() for name in names))

    def until_held(self, attempt: int, gpus: int = 1) -> None:
        """Look until so many workers of an attempt are there."""
        self.until(lambda facts: (facts.attempt, facts.spot_gpus + facts.on_demand_gpus) == (attempt, gpus))

    def restart(self, run: str | None = None, *orders: Order) -> None:
        """Forget the controller, as if it had died; the next one recovers as an engine does."""
        self.local = self.controller()
        if run is not None:
            self.enter(run)
        self.local.sweep(orders)
        for order in orders:
            self.local.hold(order)

    def look(self, job: str = "job") -> BackendStatus:
        return self.local.look([job])[job]

    def until(self, condition: Callable[[BackendStatus], object], job: str = "job") -> BackendStatus:
        """Look until a condition holds, and return what was seen then."""
        seen: list[BackendStatus] = []

        def holds() -> object:
            seen[:] = [self.look(job)]
            return condition(seen[0])

        wait_for(holds)
        return seen[0]

    def home(self, attempt: int = 1, job: str = "job") -> Path:
        return self.root / job / f"attempt-{attempt:04d}"

    def supervisor(self, rank: int = 0, attempt: int = 1) -> int:
        """Return the pid of a worker's supervisor, which leads its process group."""
        return int((self.home(attempt) / f"rank-{rank}.pid").read_text().split()[0])

    def living(self) -> list[SeenProcess]:
        return [seen for seen in scan() if (seen.marker or "").startswith(f"{self.owner}/")]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site that leaves nobody behind."""
    site = Site(tmp_path)
    try:
        yield site
    finally:
        for _ in range(3):  # a supervisor may have been about to begin something
            for seen in site.living():
                with suppress(ProcessLookupError):
                    os.kill(seen.process.pid, signal.SIGKILL)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage that ends all its workers the way a controller does, and sees that this leaves nobody."""
    stage = Stage(tmp_path)
    try:
        yield stage
        stage.restart({})
        stage.time_s += 1e6
        wait_for(lambda: not stage.marked(), stage.processes.tick)
    finally:
        for seen in stage.marked():
            with suppress(ProcessLookupError):
                os.kill(seen.process.pid, signal.SIGKILL)
