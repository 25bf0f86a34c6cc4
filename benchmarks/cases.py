"""What `python -m benchmarks --against COMMIT` times: each tree runs its own copy of this file.

So a case may call whatever its own tree has, and keeps its name from commit to commit. As a program it prints
a line with the names of all cases; then it reads a name a line and prints what that case took, in JSON. Each
case imports what it needs by itself: one that a tree cannot run leaves the others.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from slacktide.budget.fleet import Fleet
    from slacktide.budget.stream import Stream
    from slacktide.core.types import Allocation, Job
    from slacktide.engine.engine import Engine
    from slacktide.journal.events import Event
    from slacktide.journal.store.base import Store
    from slacktide.policies.view import View

SLOT_HOURS = 0.5
BATCH_MARKET = f"synthetic:h100?days=365&slot={SLOT_HOURS}h"
SHORT_MARKET = f"synthetic:h100?days=20&slot={SLOT_HOURS}h"
CLAIRVOYANT_STARTS = 30
PREPARED_STARTS = 1
ENGINE_JOBS, ENGINE_STEPS = 100, 20
JOURNAL_BATCHES = 20
EVER_JOBS = 1000
"""Jobs that ended long ago, in the case that shows whether they cost anything."""

_numbers = itertools.count()


class Task(NamedTuple):
    """Something made ready, of which only `work` is timed."""

    work: Callable[[], object]
    units: float
    """How many of what a user counts are done."""
    unit: str


def batch_guarded() -> Task:
    """Back-test uniform progress behind the guard from every slot of a year."""
    from slacktide.market.source import open_market
    from slacktide.policies.base import policies
    from slacktide.policies.deadline_guard import DeadlineGuard
    from slacktide.simulation import batch

    pool = open_market(BATCH_MARKET).pools[0]
    policy, starts = DeadlineGuard(policies.make("uniform-progress")), range(len(pool) - 48)
    return Task(partial(batch.run_table, _job(), pool, policy, starts), len(starts), "start")


def batch_prepared() -> Task:
    """Back-test stochastic-horizon behind the guard, which is solved for each start."""
    from slacktide.market.source import open_market
    from slacktide.policies.base import policies
    from slacktide.policies.deadline_guard import DeadlineGuard
    from slacktide.simulation import batch

    pool = open_market(SHORT_MARKET).pools[0]
    policy, starts = DeadlineGuard(policies.make("stochastic-horizon")), range(400, 400 + PREPARED_STARTS)
    other = replace(_job(), work_gpu_hours=100.0 + 1e-6 * next(_numbers))  # what was solved before is kept
    return Task(partial(batch.run_compiled, other, pool, policy, starts), len(starts), "start")


def clairvoyant() -> Task:
    """Solve a job for the clairvoyant, from many starts."""
    from slacktide.market.source import open_market
    from slacktide.solvers.clairvoyant.clairvoyant import yardstick

    pool, starts = open_market(SHORT_MARKET).pools[0], range(CLAIRVOYANT_STARTS)
    return Task(partial(yardstick, _job(), pool, starts), len(starts), "start")


def _job() -> Job:
    from slacktide.core.types import Job

    return Job(work_gpu_hours=100.0, deadline_hours=24.0, widths=tuple(range(1, 9)), restart_hours=0.05)


def stream_events(policy: str, *, jobs: int, node_gpus: int = 1) -> Task:
    """Run a stream event by event, with about fifty jobs present."""
    from slacktide.allocators.base import allocators
    from slacktide.simulation.fleet.run import run_events

    stream, fleet = _stream(jobs, node_gpus)
    return Task(partial(run_events, stream, fleet, allocators.make(policy)), jobs, "job")


def stream_settled() -> Task:
    """Run a stream whose jobs share nothing, all at once."""
    from slacktide.simulation.fleet.run import simulate

    stream, fleet = _stream(1_000_000, 1)
    return Task(partial(simulate, stream, fleet, "fixed-width"), len(stream), "job")


@cache
def _stream(jobs: int, node_gpus: int) -> tuple[Stream, Fleet]:
    from slacktide.budget.classes import JobClass
    from slacktide.budget.fleet import Fleet
    from slacktide.budget.stream import draw_stream
    from slacktide.core.speedup import Amdahl, Power
    from slacktide.core.types import Job

    classes = (
        JobClass(Job(name="amdahl", work_gpu_hours=1.0, speedup=Amdahl(0.9)), arrivals_per_hour=60.0),
        JobClass(Job(name="root", work_gpu_hours=1.5, speedup=Power(0.6)), arrivals_per_hour=40.0),
    )
    return draw_stream(classes, jobs, seed=7), Fleet(classes, budget_gpus=200.0, node_gpus=node_gpus)


def engine_step(ever_jobs: int = 0, *, on_disk: bool = False) -> Task:
    """Step an engine on replay with many jobs under a policy that costs nothing."""
    engine = _engine(ever_jobs, on_disk=on_disk)

    def work() -> None:
        for slot in range(ENGINE_STEPS):
            engine.step(slot * SLOT_HOURS)
        assert len(engine.state.active) == ENGINE_JOBS

    return Task(work, ENGINE_JOBS * ENGINE_STEPS, "job and step")


def _engine(ever_jobs: int, *, on_disk: bool = False) -> Engine:
    from slacktide.backends.replay import Replay
    from slacktide.engine.engine import Engine
    from slacktide.engine.job.job_context import make_context
    from slacktide.journal.events import Ended, Event, Submitted
    from slacktide.journal.store.base import MemoryStore
    from slacktide.market.source import open_market

    def submitted(job: str) -> Submitted:
        return Submitted(
            job=job, at_hours=0.0, text="", submitted_utc="", path="", policy='"on-demand"',
            slot_hours=SLOT_HOURS, start_slot=0,
        )  # fmt: skip

    market = open_market(SHORT_MARKET)
    store: Store = _on_disk() if on_disk else MemoryStore()
    before = list[Event]()
    for number in range(ever_jobs):
        done = Ended(job=f"old-{number}", at_hours=0.0, status="succeeded", finish_hours=0.0)
        before += [submitted(done.job), done]
    store.append(before)
    soft = replace(_job(), value_usd=500.0, worthless_after_hours=36.0)  # without the guard, which costs time
    context = make_context(soft, market, market.pools[0], _Constant(), 0)
    engine = Engine(store, Replay(), open_job=lambda _: context)
    for number in range(ENGINE_JOBS):
        engine.submit(submitted(f"job-{number}"))
    return engine


def journal_write() -> Task:
    """Append what an engine writes in a step of many jobs to a journal on disk, as one batch a step."""
    store, events = _journal()
    return Task(partial(_append, store, events), JOURNAL_BATCHES * len(events), "event")


def journal_read() -> Task:
    """Read all events of a journal on disk."""
    store, events = _journal()
    _append(store, events)
    return Task(lambda: sum(1 for _ in store.read()), JOURNAL_BATCHES * len(events), "event")


def _append(store: Store, events: list[Event]) -> None:
    for _ in range(JOURNAL_BATCHES):
        store.append(events)


def _journal() -> tuple[Store, list[Event]]:
    """Return an empty journal, which ends with the process, and the events of one step of many jobs."""
    from slacktide.journal.events import Decided, Lived

    engine = _engine(0)
    for slot in (0, 1):
        engine.step(slot * SLOT_HOURS)
    written = [record.event for record in engine.store.read()]
    events: list[Event] = [event for event in written if isinstance(event, Decided | Lived)]
    return _on_disk(), events[-2 * ENGINE_JOBS :]


def _on_disk() -> Store:
    """Make a journal on disk."""
    from slacktide.journal.store.sqlite import SqliteStore

    return SqliteStore(Path(_folder().name) / f"{next(_numbers)}.db")


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="slacktide-cases-")


class _Constant:
    """Wants the same at all times."""

    def decide(self, view: View) -> Allocation:
        from slacktide.core.types import Allocation

        return Allocation(2, 2)


CASES: dict[str, Callable[[], Task]] = {
    "batch-guarded": batch_guarded,
    "batch-prepared": batch_prepared,
    "clairvoyant": clairvoyant,
    "stream-nodes": partial(stream_events, "fixed-width", jobs=2500, node_gpus=4),
    "stream-srpt": partial(stream_events, "srpt", jobs=1500),
    "stream-online": partial(stream_events, "online-width", jobs=1000),
    "stream-settled": stream_settled,
    "engine-step": engine_step,
    "engine-step-ever": partial(engine_step, EVER_JOBS),
    "engine-step-disk": partial(engine_step, on_disk=True),
    "journal-write": journal_write,
    "journal-read": journal_read,
}
"""Each makes its task ready anew, because some keep what they found out."""


def timed(name: str) -> dict[str, Any]:
    """Run a case once and return its CPU seconds, or under `error` why this tree cannot run it."""
    try:
        task = CASES[name]()
        gc.collect()
        began = time.process_time()
        task.work()
        taken = time.process_time() - began
    except Exception as error:  # reported to the caller: the other tree may still run it
        return {"error": f"{type(error).__name__}: {error}"}
    return {"cpu_s": taken, "units": task.units, "unit": task.unit}


def main() -> None:
    """Answer names with times until there are no more."""
    print(json.dumps(list(CASES)), flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(line.strip())), flush=True)


if __name__ == "__main__":
    main()
