"""The engine: what a step costs compared with the plain back-test, and whether the two agree to the cent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.timing import best
from slacktide.backends.replay import Replay
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.engine.bills.audit import audit
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Submitted
from slacktide.journal.store.base import MemoryStore, Store
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.base import Market
from slacktide.market.source import open_market
from slacktide.policies.base import policies
from slacktide.results.run import Run
from slacktide.simulation import plain

MARKET = "synthetic:h100?days=10&slot=30m&seed=5"
JOBS = 20


def contexts() -> list[JobContext]:
    """Return jobs of 48 half hours, each under another policy, from another start and in a pool of its own.

    Jobs of one pool share its spot; alone in theirs they are what the back-test says.
    """
    market = open_market(MARKET)
    names = [name for name in policies if name != "stochastic-horizon"]
    job = Job(
        work_gpu_hours=70.0,
        deadline_hours=24.0,
        widths=tuple(range(1, 9)),
        speedup=Amdahl(0.97),
        restart_hours=0.07,
        checkpoint_hours=0.2,
    )
    places = [replace(market.pools[0], name=f"pool-{number}") for number in range(JOBS)]
    return [
        make_context(job, Market((place,)), place, policies.make(names[number % len(names)]), 7 * number)
        for number, place in enumerate(places)
    ]


def run(store: Store, given: list[JobContext]) -> tuple[int, Engine]:
    """Run all jobs at once on replay, and return how many steps a job took in all."""
    by_id = {f"job-{number}": context for number, context in enumerate(given)}
    engine = Engine(store, Replay(), open_job=lambda submitted: by_id[submitted.job])
    for job, context in by_id.items():
        engine.submit(
            Submitted(
                job=job,
                at_hours=0.0,
                text="",
                submitted_utc="",
                path="",
                policy="",
                slot_hours=context.slot_hours,
                start_slot=context.start_slot,
            )
        )
    slot = steps = 0
    while engine.state.active:
        steps += len(engine.state.active)
        engine.step(slot * 0.5)
        slot += 1
    return steps, engine


def back_test(given: list[JobContext]) -> list[Run]:
    """Run the same jobs in the plain back-test."""
    return [
        plain.run(
            context.job, context.pool, context.policy, start=context.start_slot, setting=context.setting
        )
        for context in given
    ]


def main() -> None:
    """Print the time of a step, with the journal in memory and on disk, and the cents that differ."""
    given = contexts()
    back_test(given)
    seconds, results = best(lambda: back_test(given))
    slots = sum(len(one.slots) for one in results)
    print(f"{JOBS} jobs at once, {slots} slots, every policy but stochastic-horizon")
    print(f"{'':<28}{'ms per job and step':>22}{'over the back-test':>22}")
    print(f"{'plain back-test':<28}{1000 * seconds / slots:>22.3f}{1.0:>22.2f}")
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(100))
        stores: dict[str, Callable[[], Store]] = {
            "engine, journal in memory": MemoryStore,
            "engine, journal on disk": lambda: SqliteStore(Path(folder) / f"{next(numbers)}.db"),
        }
        for name, make in stores.items():
            taken, (steps, engine) = best(lambda make=make: run(make(), given))  # type: ignore[misc]
            each = 1000 * taken / steps
            print(f"{name:<28}{each:>22.3f}{each / (1000 * seconds / slots):>22.2f}")
    differ = sum(
        round(one.cost_usd, 2) != round(record.progress.state.cost_usd, 2)
        for one, record in zip(results, engine.state.jobs.values(), strict=True)
    )
    clean = sum(
        audit(record, context, engine.store.read()).clean
        for record, context in zip(engine.state.jobs.values(), given, strict=True)
    )
    print(f"bills that differ from the back-test by a cent: {differ} of {JOBS}")
    print(f"bills whose audit is clean: {clean} of {JOBS}")


if __name__ == "__main__":
    main()
