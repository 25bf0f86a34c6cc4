"""A back-test as one HTML page: the verdict, all starts together, and a typical one as any run is shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.core.files import write_whole
from slacktide.report import words
from slacktide.report.figures.backtest import cost_svg
from slacktide.report.pages import sections
from slacktide.report.pages.assumptions import assumptions
from slacktide.report.pages.rendering import drawing, render
from slacktide.report.pages.starts import starts_table
from slacktide.report.text.sentences.verdict import caveats, verdict
from slacktide.report.text.tables.backtest import in_pools, summary

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison


COSTS = (
    "Costs are per run, over all starts. × clairvoyant: the whole bill divided by that with perfect "
    "foresight. Spot: share of GPU-hours held. Preempted: times per run that the market took GPUs away."
)
MOVED = (
    " Moves: times per run that the checkpoint was copied to another pool; egress: what that cost. A policy "
    "that stays in one pool is shown in the one that was best for it, which was not known in advance."
)


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write a back-test as a self-contained page; raises InputError when the path cannot be written."""
    write_whole(path, page(comparison).encode())


def page(comparison: Comparison) -> str:
    """Return the whole page."""
    job, run, starts = comparison.job, comparison.detail[0], words.starts_of(comparison)
    where = "" if comparison.roams else f" in pool {run.pool.name}"
    return render(
        "backtest.html",
        title=f"Back-test of {job.name}",
        name=job.name,
        task=f"{words.task(job)}.",
        facts=[" · ".join(sections.job_facts(job)), _market(comparison)],
        verdict=verdict(comparison),
        caveats=caveats(comparison),
        summary=summary(comparison),
        colours=list(sections.colours_of(one.policy for one in comparison.summary).values()),
        summary_note=COSTS + (MOVED if comparison.roams else ""),
        bills=drawing(cost_svg(comparison)),
        in_pools=in_pools(comparison) if comparison.roams else None,
        typical_note=f"From {words.long_time(run.pool.time(run.start_slot))}{where}: the market, what each "
        "policy held, did and spent.",
        pictures=sections.pictures(comparison.detail),
        folds=sections.every_decision(comparison.detail),
        decisions_note=sections.NOTE,
        starts=starts_table(comparison),
        starts_counted=words.count(starts, "start"),
        assumptions=assumptions(comparison),
    )


def _market(comparison: Comparison) -> str:
    pools = comparison.pools
    first, last = min(pool.start for pool in pools), max(pool.end for pool in pools)
    more = f" and {len(pools) - 6} more" if len(pools) > 6 else ""
    names = ", ".join(pool.name for pool in pools[:6]) + more
    noun = "pool" if len(pools) == 1 else "pools"
    starts = words.count(words.starts_of(comparison), "start")
    return (
        f"Market {comparison.market}, {noun} {names}, {words.long_time(first)} to {words.long_time(last)}; "
        f"slots of {words.duration(pools[0].slot_hours)}; {starts}."
    )
