"""What opening a journal and listing its jobs cost after many have finished, with and without a snapshot."""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.backends.replay import Replay
from slacktide.engine.engine import Engine
from slacktide.journal.events import Event, Lived, Submitted
from slacktide.journal.state.snapshots import keep, read_state
from slacktide.journal.store.base import MemoryStore, Snapshot
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.source import open_market

FEW, MANY = 10, 1_000
TRIES = 5
MARKET = "synthetic:h100?days=3&slot=30m&seed=5"
JOB = """\
name: job
run: "true"
resources: {accelerators: "H100:1..8"}
work: 70 gpu-hours
deadline: 24h
restart: 4m
speedup: {amdahl: 0.97}
"""


def main() -> None:
    """Print processor times after few and many finished jobs, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        journals = {jobs: _journal(Path(folder) / f"{jobs}.db", jobs) for jobs in (FEW, MANY)}
        for kept in (True, False):
            for name, cost in (("open a controller", _opened_s), ("slacktide jobs", _listed_s)):
                took = {jobs: _least(cost, path, kept=kept) for jobs, path in journals.items()}
                words = ", ".join(f"{1e3 * took[jobs]:.0f} ms after {jobs:,} jobs" for jobs in took)
                how = "with a snapshot" if kept else "without"
                print(f"{name} {how}: {words}, ratio {took[MANY] / took[FEW]:.2f}")


def _journal(path: Path, jobs: int) -> Path:
    """Write the journal of many jobs that ran as one did."""
    one = list(_lived_through())
    with SqliteStore(path) as store:
        for number in range(jobs):
            store.append([_renamed(event, f"job-{number}") for event in one])
        print(f"{jobs:,} jobs: {store.last_seq():,} events")
    return path


def _lived_through() -> Iterator[Event]:
    """Run a job on replay, and return what happened."""
    store, pool = MemoryStore(), open_market(MARKET).pools[0]
    engine = Engine(store, Replay())
    engine.submit(
        Submitted(
            job="job",
            at_hours=0.0,
            text=JOB,
            submitted_utc="2026-01-01T00:00:00+00:00",
            path="job.yaml",
            policy=json.dumps("uniform-progress"),
            market=json.dumps({"spec": MARKET}),
            pool=pool.name,
            slot_hours=pool.slot_hours,
            start_slot=20,
        )
    )
    slot = 0
    while engine.state.active:
        engine.step(slot * pool.slot_hours)
        slot += 1
    return (record.event for record in store.read())


def _renamed(event: Event, job: str) -> Event:
    if isinstance(event, Lived):
        stretch = event.priced.stretch._replace(payer=job)
        event = dataclasses.replace(event, priced=event.priced._replace(stretch=stretch))
    return dataclasses.replace(event, job=job)


def _least(cost: Callable[[Path], float], path: Path, *, kept: bool) -> float:
    return min(cost(_prepared(path, kept=kept)) for _ in range(TRIES))


def _prepared(path: Path, *, kept: bool) -> Path:
    """Leave a snapshot of the journal in it, or none that can be used."""
    with SqliteStore(path) as store:
        if kept:
            keep(store, read_state(store))
        else:
            store.snapshot(Snapshot(0, "of no code", b""))
    return path


def _opened_s(path: Path) -> float:
    """Return the processor time until a controller is in charge."""
    began = time.process_time()
    with Controller(path, Setup(backend="replay", learned=path.with_suffix(".json"))):
        return time.process_time() - began


def _listed_s(path: Path) -> float:
    """Return the processor time of the whole command, as a user runs it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "slacktide", "jobs", "--journal", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
