"""Every start of a back-test as one row of a page, the policies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from slacktide.core.units import format_usd
from slacktide.report import words

if TYPE_CHECKING:
    from slacktide.core.types import Job
    from slacktide.market.base import Pool
    from slacktide.results.comparison import Comparison
    from slacktide.results.run import Run


class RunCell(NamedTuple):
    """What a page says of one run in a line of starts."""

    cost: str
    finish: str
    late: bool
    facts: tuple[str, ...]


class StartRow(NamedTuple):
    """One start: where and when, and what each policy made of it."""

    pool: str
    time: str
    slot: int
    runs: tuple[RunCell | None, ...]


class Starts(NamedTuple):
    """All starts of a back-test; pools are named where there are several."""

    pools: bool
    policies: tuple[str, ...]
    rows: tuple[StartRow, ...]


def starts_table(comparison: Comparison) -> Starts:
    """Return a row per start with each policy's cost, finish and preemptions."""
    policies = tuple(one.policy for one in comparison.summary)
    pools = {pool.name: pool for pool in comparison.pools}
    by_start: dict[tuple[str, int], dict[str, Run]] = {}
    for run in comparison.runs:
        by_start.setdefault(_start(comparison, pools, run), {})[run.policy] = run
    rows = (
        StartRow(
            pool,
            words.short_time(pools[pool].time(slot)),
            slot,
            tuple(_cell(comparison.job, runs.get(policy)) for policy in policies),
        )
        for (pool, slot), runs in by_start.items()
    )
    return Starts(len(pools) > 1 and not comparison.roams, policies, tuple(rows))


def _start(comparison: Comparison, pools: Mapping[str, Pool], run: Run) -> tuple[str, int]:
    """Return the pool and slot of a start; of a job that may move, that of the first pool."""
    if not comparison.roams:
        return run.pool, run.start_slot
    first = comparison.pools[0]
    since = pools[run.pool].time(run.start_slot) - first.start
    return first.name, round(since / timedelta(hours=first.slot_hours))


def _cell(job: Job, run: Run | None) -> RunCell | None:
    if run is None:
        return None
    facts = [words.count(run.preemptions, "preemption")] if run.preemptions else []
    facts += [words.count(run.moves, "move")] if run.moves else []
    facts += [f"{words.gpu_hours(run.lost_gpu_hours)} GPU-h lost"] if run.lost_gpu_hours > 0 else []
    done = words.finish(job, run.finish_hours)
    return RunCell(format_usd(run.cost_usd), done, not run.on_time, tuple(facts))
