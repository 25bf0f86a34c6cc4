"""Milliseconds to start, replace and stop a set of local workers, compared with as many bare processes."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from slacktide.backends.base import LaunchSpec
from slacktide.backends.local import Launch, LocalProcesses
from slacktide.backends.process_table import scan
from slacktide.journal.events import Capacity

TRIES = 15
PAUSE_S = 0.001
SPOT: Capacity = "spot"
NAMES = ("start", "replace", "stop", "bare processes, start and stop")


def main() -> None:
    """Print medians for a few widths; the tick that drives it comes every millisecond here."""
    with tempfile.TemporaryDirectory() as folder:
        processes = LocalProcesses(Path(folder) / "root", "benchmark")
        spec = LaunchSpec(job="job", run="exec sleep 600", grace_s=5.0)
        saved = Path(folder) / "checkpoints"
        processes.register(Launch(spec=spec, workdir=Path(folder), checkpoint_dir=saved))
        attempt = 0
        for width in (1, 4, 8):
            attempt = _measure(processes, width, attempt)
    began = time.perf_counter()
    seen = sum(1 for _ in scan())
    print(f"one look through all {seen} processes: {1e3 * (time.perf_counter() - began):.1f} ms")


def _measure(processes: LocalProcesses, width: int, attempt: int) -> int:
    starts, changes, stops, bare = [], [], [], []
    for _ in range(TRIES):
        starts.append(_timed(processes, attempt + 1, width, "running"))
        changes.append(_timed(processes, attempt + 2, width, "running"))
        stops.append(_timed(processes, attempt + 3, 0, "none"))
        bare.append(_bare(width))
        attempt += 3
    named = zip(NAMES, (starts, changes, stops, bare), strict=True)
    times = (f"{name} {1e3 * median(took):.0f} ms" for name, took in named)
    print(f"{width} workers: {', '.join(times)}")
    return attempt


def _timed(processes: LocalProcesses, attempt: int, width: int, phase: str) -> float:
    began = time.perf_counter()
    processes.hold("job", attempt, (SPOT,) * width)
    _until(processes, lambda: processes.look("job")[:2] == (attempt, phase))
    return time.perf_counter() - began


def _until(processes: LocalProcesses, condition: Callable[[], bool]) -> None:
    while not condition():
        processes.tick()
        time.sleep(PAUSE_S)


def _bare(width: int) -> float:
    began = time.perf_counter()
    running = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(width)]
    for process in running:
        process.terminate()
    for process in running:
        process.wait()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
