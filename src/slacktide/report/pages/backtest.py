"""A back-test as one HTML page: the verdict, all starts together, and a typical one as any run is shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.files import write_whole
from slacktide.report import words
from slacktide.report.figures.backtest import cost_svg
from slacktide.report.pages import markup, sections
from slacktide.report.pages.assumptions import assumptions
from slacktide.report.pages.starts import starts_table
from slacktide.report.sentences.verdict import caveats, verdict
from slacktide.report.tables.backtest import in_pools, summary

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison


FIXED = "mean cost where a job stays in one pool"
MOVED = (
    " Moves: times per run that the checkpoint was carried to another pool; egress: what that cost. A policy "
    "that stays in one pool is shown in the one that was best for it, which nobody knew beforehand."
)


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write a back-test as a self-contained page; raises InputError when the path cannot be written."""
    write_whole(path, page(comparison).encode())


def page(comparison: Comparison) -> str:
    """Return the whole page."""
    job = comparison.job
    said, but = [verdict(comparison)], caveats(comparison)
    parts = [
        sections.header("Back-test", job.name, job, _market(comparison), said, but),
        _summary(comparison),
        _typical(comparison),
        sections.every_decision(comparison.detail),
        _starts(comparison),
        markup.section("Assumptions", markup.bullets(assumptions(comparison))),
        "<footer>Made by Slacktide. Times are UTC, money is USD.</footer>",
    ]
    return markup.document(f"Back-test of {job.name}", parts)


def _market(comparison: Comparison) -> str:
    pools = comparison.pools
    first, last = min(pool.start for pool in pools), max(pool.end for pool in pools)
    more = f" and {len(pools) - 6} more" if len(pools) > 6 else ""
    names = ", ".join(pool.name for pool in pools[:6]) + more
    noun = "pool" if len(pools) == 1 else "pools"
    return (
        f"Market {comparison.market}, {noun} {names}, {words.long_time(first)} to {words.long_time(last)}; "
        f"slots of {words.duration(pools[0].slot_hours)}; {words.count(_count(comparison), 'start')}."
    )


def _summary(comparison: Comparison) -> str:
    note = (
        "Costs are per run, over all starts. × clairvoyant: the whole bill divided by that with perfect "
        "foresight. Spot: share of GPU-hours held. Preempted: times per run that the market took GPUs away."
    )
    colours = sections.colours_of(one.policy for one in comparison.summary)
    table = markup.table(summary(comparison), colours=list(colours.values()))
    bars = markup.figure(cost_svg(comparison))
    fixed = [markup.folded("Every policy in every pool", FIXED, markup.table(in_pools(comparison)))]
    return markup.section(
        "All starts together",
        table,
        markup.paragraph(note + (MOVED if comparison.roams else ""), "note"),
        bars,
        *(fixed if comparison.roams else ()),
    )


def _typical(comparison: Comparison) -> str:
    run = comparison.detail[0]
    start = words.long_time(run.pool.time(run.start_slot))
    where = f" in pool {run.pool.name}" if not comparison.roams else ""
    note = f"From {start}{where}: the market, what each policy held, did and spent."
    drawn = sections.pictures(comparison.detail)
    return markup.section("One typical start", markup.paragraph(note, "note"), *drawn)


def _starts(comparison: Comparison) -> str:
    note = "cost, finish and preemptions of every run"
    count = words.count(_count(comparison), "start")
    return markup.section("Start by start", markup.folded(count, note, starts_table(comparison)))


def _count(comparison: Comparison) -> int:
    return words.starts_of(comparison)
