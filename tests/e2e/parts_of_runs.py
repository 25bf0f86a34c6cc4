"""Small jobs for the command line to run, and looks at what they left."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "tests" / "crash" / "parts" / "worker.py"
SPEED = "3600"
"""A market hour in a second: half-hour slots pass by twice a second."""
PATIENCE_S = 180.0

JOB = """\
name: {name}
run: {command}
resources: {{accelerators: "H100:1..3"}}
work: 12 gpu-hours +-0%
deadline: {deadline}
restart: 6m
checkpoint: {{dir: ckpt-{name}, every: 3m, grace: 5s}}
policy: uniform-progress
market: {market}
"""
SLOTS = 600


def counting(steps: int) -> str:
    """Return the command of a job that counts so many steps, a hundred a second and worker."""
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(WORKER))} {steps}"


def write_job(
    folder: Path, command: str, *, name: str = "counting", deadline: str = "60h", more: str = ""
) -> str:
    """Write a job file and return its path; its market always has three spot GPUs.

    So what it holds does not depend on how fast this machine is.
    """
    market = folder / "market.csv"
    write_table(market, SLOTS)
    path, text = (
        folder / f"{name}.yaml",
        JOB.format(name=name, command=command, deadline=deadline, market=market),
    )
    path.write_text(text + more, encoding="utf-8")
    return str(path)


def write_table(path: Path, slots: int) -> None:
    """Write a market of half-hour slots that never changes."""
    begin = datetime(2025, 1, 1, tzinfo=UTC)
    times = (begin + slot * timedelta(minutes=30) for slot in range(slots))
    rows = [f"{time.isoformat()},zone,3,2.0,10.0" for time in times]
    head = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")


def state_of(journal: Path) -> JournalState:
    """Read a journal; an empty state while there is none, or while it is just being made."""
    if not journal.exists() or journal.stat().st_size == 0:
        return JournalState()
    with SqliteStore(journal, create=False) as store:
        return read_state(store)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that other processes do."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "waited for too long"
        time.sleep(0.05)


def progressed(journal: Path, job: str = "counting", *, share: float = 0.05) -> bool:
    """Whether a job's workers have told of some progress."""
    record = state_of(journal).jobs.get(job)
    return record is not None and record.progress.state.progress_gpu_hours > share * 12


def later(*steps: Callable[[], object]) -> threading.Thread:
    """Take steps one after another beside the test."""

    def take_all() -> None:
        for step in steps:
            step()

    thread = threading.Thread(target=take_all, daemon=True)
    thread.start()
    return thread


def workers_of(folder: Path) -> list[int]:
    """Return the worker processes on this machine whose environment names a folder; none without /proc."""
    mark, found = os.fsencode(str(folder)), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"SLACKTIDE_WORKER=" in text and mark in text:
            found.append(int(entry.name))
    return found
