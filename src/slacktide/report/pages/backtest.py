"""A back-test as one HTML page: the verdict, all starts, a typical one, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from slacktide.core.types import Job
from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.backtest import cost_svg
from slacktide.report.pages import rendering
from slacktide.report.text.tables.backtest import caveats, in_pools, summary, verdict

if TYPE_CHECKING:
    from slacktide.market.base import Pool
    from slacktide.results.comparison import Comparison
    from slacktide.results.run import Run

COSTS = (
    "Costs are per run, over all starts. × clairvoyant: the whole bill divided by that with perfect "
    "foresight. Spot: share of GPU-hours held. Preempted: times per run that the market took GPUs away."
)
MOVED = (
    " Moves: times per run that the checkpoint was copied to another pool; egress: what that cost. A policy "
    "that stays in one pool is shown in the one that was best for it, which was not known in advance."
)
CLAIRVOYANT = (
    "The clairvoyant knows the market's whole future. It plans the cheapest run in hindsight, checkpoints "
    "just before every loss, and may exceed the maximum cost. It cannot be run: it is a bound, "
    "not a choice."
)
FORESIGHT = "Every policy saw only the present and the past of the market when it decided."
AVAILABLE = "On-demand GPUs were always available. What the job took did not change prices or availability."
AFTER_END = (
    "After the last slot of the market there is no spot, and on demand keeps its last price; only late "
    "runs get there, because every start leaves the whole deadline inside the market."
)
MOST_POOLS = 6  # pools of the market that are named


def page(comparison: Comparison) -> str:
    """Return the page as HTML that loads nothing else."""
    job, run, starts = comparison.job, comparison.detail[0], words.starts_of(comparison)
    where = "" if comparison.roams else f" in pool {run.pool.name}"
    return rendering.render(
        "backtest.html",
        title=f"Back-test of {job.name}",
        name=job.name,
        task=f"{words.task(job)}.",
        facts=[" · ".join(rendering.job_facts(job)), _market(comparison)],
        verdict=verdict(comparison),
        caveats=caveats(comparison),
        summary=summary(comparison),
        colours=list(rendering.colours_of(one.policy for one in comparison.summary).values()),
        summary_note=COSTS + (MOVED if comparison.roams else ""),
        bills=cost_svg(comparison),
        in_pools=in_pools(comparison) if comparison.roams else None,
        typical_note=f"From {words.long_time(run.pool.time(run.start_slot))}{where}: the market, what each "
        "policy held, did and spent.",
        pictures=rendering.pictures(comparison.detail),
        folds=rendering.every_decision(comparison.detail),
        decisions_note=rendering.NOTE,
        starts=_starts(comparison),
        starts_name_pools=len(comparison.pools) > 1 and not comparison.roams,
        policies=[one.policy for one in comparison.summary],
        starts_counted=words.count(starts, "start"),
        assumptions=_assumptions(comparison),
    )


def _market(comparison: Comparison) -> str:
    pools = comparison.pools
    first, last = min(pool.start for pool in pools), max(pool.end for pool in pools)
    names = words.listed([pool.name for pool in pools], MOST_POOLS)
    noun = "pool" if len(pools) == 1 else "pools"
    starts = words.count(words.starts_of(comparison), "start")
    return (
        f"Market {comparison.market}, {noun} {names}, {words.long_time(first)} to {words.long_time(last)}; "
        f"slots of {words.duration(pools[0].slot_hours)}; {starts}."
    )


class RunCell(NamedTuple):
    """What the table of starts says of one run."""

    cost: str
    finish: str
    late: bool
    facts: tuple[str, ...]


class StartRow(NamedTuple):
    """A row of the table of starts: where and when, and the run of each policy."""

    pool: str
    time: str
    slot: int
    runs: tuple[RunCell | None, ...]


def _starts(comparison: Comparison) -> list[StartRow]:
    pools = {pool.name: pool for pool in comparison.pools}
    by_start: dict[tuple[str, int], dict[str, Run]] = {}
    for run in comparison.runs:
        by_start.setdefault(_start(comparison, pools, run), {})[run.policy] = run
    rows = []
    for (pool, slot), runs in by_start.items():
        cells = (_cell(comparison.job, runs.get(one.policy)) for one in comparison.summary)
        rows.append(StartRow(pool, words.short_time(pools[pool].time(slot)), slot, tuple(cells)))
    return rows


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


def _assumptions(comparison: Comparison) -> list[str]:
    """Return what was assumed because the market's source does not say it, then what a back-test assumes."""
    return [
        *(words.plain(sentence) for sentence in comparison.assumptions),
        CLAIRVOYANT,
        *(_roams(comparison) if comparison.roams else ()),
        FORESIGHT,
        AVAILABLE,
        _deadline(comparison.job),
        _changes(comparison.job),
        _money(comparison.job),
        AFTER_END,
        "The range p10–p90 leaves out the cheapest and the most expensive tenth of the starts.",
        "The start shown in detail is the one where the last policy's bill is the median of its bills.",
    ]


def _roams(comparison: Comparison) -> list[str]:
    seen = {
        "feed": "What every pool offered in a slot was known to policies that choose among pools.",
        "tried": "Of other pools only prices were known, and what tries showed; a failed try is free.",
    }
    return [
        "A job is in one pool at a time. When it continues in another pool its checkpoint is copied there, "
        "which takes time and money depending on its size.",
        "The clairvoyant over pools may move as well; × clairvoyant is relative to its bill.",
        seen[comparison.sight],
    ]


def _deadline(job: Job) -> str:
    late = words.late(job)
    if job.hard:
        guard = (
            "The deadline is hard, so the deadline guard protected every policy: at the last moment at "
            "which on demand alone is still on time, the guard rents on demand."
        )
        return f"{guard} {late}"
    worthless = words.duration(job.worthless_after_hours or job.deadline_hours)
    return f"The deadline is soft: a result loses value after it and is worthless after {worthless}. {late}"


def _changes(job: Job) -> str:
    shrink = job.restart_hours if job.shrink_hours is None else job.shrink_hours
    pause = (
        f"Adding workers costs {words.duration(job.restart_hours)} without progress, "
        f"removing some costs {words.duration(shrink)}."
    )
    if math.isinf(job.checkpoint_hours):
        return f"{pause} The job has no checkpoints: any change of its workers starts its work over."
    if job.checkpoint_hours > 0:
        every = words.duration(job.checkpoint_hours)
        return (
            f"{pause} A preemption takes the work since the last checkpoint, written every {every} of work."
        )
    return f"{pause} A preemption loses no finished work."


def _money(job: Job) -> str:
    billing = {
        "second": "GPUs are billed by the second.",
        "slot": "A slot in which GPUs are held is billed in full.",
    }[job.billing]
    if job.max_cost_usd is None:
        return billing
    return f"{billing} A job that reaches its maximum cost checkpoints and stops, done or not."
