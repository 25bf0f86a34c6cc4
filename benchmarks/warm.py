"""Seconds to change the number of workers of the NumPy and the LoRA job, in place and started anew.

Once as processes of this machine, and once over two machines whose agents are plain processes.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from slacktide.backends.base import LaunchSpec
from slacktide.backends.local import Launch, LocalProcesses, ProcessStatus
from slacktide.backends.machines.agent.messages import Host
from slacktide.backends.machines.machine_workers import MachineWorkers
from slacktide.journal.events import Capacity
from tests.parts_of_agents import LocalAgents

TRIES = 3
PAUSE_S = 0.002
SETTLE_S = 0.5
"""How long workers work between two changes."""
PATIENCE_S = 120.0
SPOT: Capacity = "spot"
CHANGES = ((2, 1), (1, 2))
OVER_MACHINES = ((3, 1), (1, 3))
"""Changes for machines with two GPUs each."""
LEASE_S = 60.0
LORA = Path(__file__).parents[1] / "examples" / "lora"
NUMPY_RUN = "exec $SLACKTIDE_PYTHON -m slacktide.demo.train --steps 1000000 --step-seconds 0.05"
LORA_RUN = f"exec $SLACKTIDE_PYTHON {LORA}/train.py --steps 1000000 --step-seconds 0.05"


class Took(NamedTuple):
    """How long a change took."""

    order_s: float
    """From the order to the first report at the new width."""
    pause_s: float
    """Of that, how long no worker made progress, as far as it is known."""


def main() -> None:
    """Print medians for one worker less and one more."""
    jobs = {"NumPy": NUMPY_RUN}
    if importlib.util.find_spec("torch") is None:
        print("LoRA: needs PyTorch (slacktide[torch])")
    else:
        jobs["LoRA"] = LORA_RUN
    for name, run in jobs.items():
        with tempfile.TemporaryDirectory() as place:
            _measure(name, _Job(Path(place), run, _Here(Path(place))), CHANGES)
        with tempfile.TemporaryDirectory() as place:
            _measure(
                f"{name} over two machines", _Job(Path(place), run, _Machines(Path(place))), OVER_MACHINES
            )


def _measure(name: str, job: _Job, changes: tuple[tuple[int, int], ...]) -> None:
    try:
        for before, after in changes:
            warm, cold = (
                [job.change(before, after, anew=anew) for _ in range(TRIES)] for anew in (False, True)
            )
            print(f"{name}, {before} to {after} workers: {_told('in place', warm)}; {_told('anew', cold)}")
    finally:
        job.end()


def _told(what: str, tries: list[Took]) -> str:
    order_s, pause_s = (median(times) for times in zip(*tries, strict=True))
    still = "" if math.isnan(pause_s) else f", of which no worker runs for {pause_s:.2f} s"
    return f"{what} {order_s:.2f} s from the order to the first report{still}"


class _Here:
    """Workers on this machine."""

    def __init__(self, place: Path) -> None:
        self._processes = LocalProcesses(place / "root", "benchmark")

    def register(self, launch: Launch) -> None:
        self._processes.register(launch)

    def hold(self, attempt: int, width: int, pool: str) -> None:
        self._processes.hold("job", attempt, (SPOT,) * width, pool=pool)

    def look(self) -> ProcessStatus:
        self._processes.tick()
        return self._processes.look("job")

    def close(self) -> None:
        self._processes.close()


class _Machines:
    """Workers on two machines with two GPUs each."""

    def __init__(self, place: Path) -> None:
        hosts = [Host(name, None, None, 2, "127.0.0.1") for name in ("one", "two")]
        link = LocalAgents(hosts, place / "machines", "benchmark", LEASE_S)
        self._workers = MachineWorkers(place / "runs", "benchmark", link, LEASE_S)

    def register(self, launch: Launch) -> None:
        self._workers.register(launch)

    def hold(self, attempt: int, width: int, pool: str) -> None:
        self._workers.hold("job", attempt, (SPOT,) * width, pool=pool)

    def look(self) -> ProcessStatus:
        self._workers.tick()
        return self._workers.look("job")

    def close(self) -> None:
        self._workers.close()


class _Job:
    """A job whose width is changed again and again."""

    def __init__(self, place: Path, run: str, workers: _Here | _Machines) -> None:
        self._workers, self._attempt, self._pool = workers, 0, ""
        work = place / "work"
        work.mkdir()
        spec = LaunchSpec(job="job", run=run, grace_s=10.0)
        launch = Launch(spec=spec, workdir=work, checkpoint_dir=place / "saved")
        self._workers.register(launch)

    def change(self, before: int, after: int, *, anew: bool) -> Took:
        """Have some workers at work, then order another number of them."""
        self._hold(before, anew=True)
        until = time.monotonic() + SETTLE_S
        self._until(lambda seen: time.monotonic() >= until)
        return self._hold(after, anew=anew)

    def end(self) -> None:
        """End all workers."""
        self._workers.hold(self._attempt + 1, 0, self._pool)
        self._until(lambda seen: seen.gone)
        self._workers.close()

    def _hold(self, width: int, *, anew: bool) -> Took:
        began, self._attempt = time.monotonic(), self._attempt + 1
        # Workers of another pool would be on other machines, so they are started anew.
        self._pool = f"pool-{self._attempt}" if anew else self._pool
        self._workers.hold(self._attempt, width, self._pool)
        places_sent_s = self._until(self._works).places_sent_s
        return Took(time.monotonic() - began, math.nan if places_sent_s is None else places_sent_s)

    def _works(self, seen: ProcessStatus) -> bool:
        return seen.attempt == self._attempt and seen.own_report and not seen.reforming

    def _until(self, over: Callable[[ProcessStatus], bool]) -> ProcessStatus:
        give_up = time.monotonic() + PATIENCE_S
        while not over(seen := self._workers.look()):
            if time.monotonic() > give_up:
                raise RuntimeError(f"workers must be there in {PATIENCE_S:g} s, got {seen}")
            time.sleep(PAUSE_S)
        return seen


if __name__ == "__main__":
    main()
