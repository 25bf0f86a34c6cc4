"""A back-test as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.files import write_whole
from slacktide.report import markup, words
from slacktide.report.assumptions import assumptions
from slacktide.report.decisions import decisions, spans
from slacktide.report.figures.backtest import panel_svg
from slacktide.report.starts import starts_table
from slacktide.report.style import CLAIRVOYANT, looks
from slacktide.report.tables import summary
from slacktide.report.verdict import caveats, verdict
from slacktide.types import Job
from slacktide.units import format_usd

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison
    from slacktide.results.run import Run

SAYS = {
    "market": "Prices per GPU-hour and spot GPUs obtainable over time",
    "holdings": "Spot and on-demand GPUs held by each policy over time",
    "progress": "Share of the work done by each policy over time, against a straight line to the deadline",
    "cost": "Mean cost of each policy with its p10 to p90 range, as a multiple of the clairvoyant's",
}


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write a back-test as a self-contained page; raises InputError when the path cannot be written."""
    write_whole(path, page(comparison).encode())


def page(comparison: Comparison) -> str:
    """Return the whole page."""
    parts = [
        _head(comparison),
        _summary(comparison),
        _typical(comparison),
        _decisions(comparison),
        _starts(comparison),
        markup.section("What this rests on", markup.bullets(assumptions(comparison))),
        "<footer>Made by Slacktide. Times are UTC, money is USD.</footer>",
    ]
    return markup.document(f"Back-test of {comparison.job.name}", parts)


def _head(comparison: Comparison) -> str:
    job = comparison.job
    but = "".join(markup.paragraph(sentence, "but") for sentence in caveats(comparison))
    return "\n".join(
        [
            "<header>",
            markup.paragraph("Back-test", "kicker"),
            f"<h1>{markup.text(job.name)}</h1>",
            markup.paragraph(f"{words.task(job)}.", "asked"),
            markup.paragraph(" · ".join(job_facts(job)), "facts"),
            markup.paragraph(_market(comparison), "facts"),
            f'<div class="verdict">{markup.paragraph(verdict(comparison))}{but}</div>',
            "</header>",
        ]
    )


def job_facts(job: Job) -> list[str]:
    """Return the terms of a job, each in a few words."""
    facts = ["hard deadline" if job.hard else "soft deadline"]
    if job.value_usd > 0:
        facts.append(f"worth {format_usd(job.value_usd)} in time")
    if not job.hard and job.worthless_after_hours is not None:
        facts.append(f"worthless after {words.duration(job.worthless_after_hours)}")
    facts.append(f"restart {words.duration(job.restart_hours)}")
    if job.checkpoint_hours > 0:
        facts.append(f"checkpoint every {words.duration(job.checkpoint_hours)}")
    if job.max_cost_usd is not None:
        facts.append(f"at most {format_usd(job.max_cost_usd)}")
    return [*facts, f"paid by the {job.billing}", f"speedup {job.speedup!r}"]


def _market(comparison: Comparison) -> str:
    pools = comparison.pools
    first, last = min(pool.start for pool in pools), max(pool.end for pool in pools)
    names = ", ".join(pool.name for pool in pools[:6]) + (
        f" and {len(pools) - 6} more" if len(pools) > 6 else ""
    )
    noun = "pool" if len(pools) == 1 else "pools"
    starts = len({(run.pool, run.start_slot) for run in comparison.runs})
    return (
        f"Market {comparison.market}, {noun} {names}, {words.long_time(first)} to {words.long_time(last)}; "
        f"slots of {words.duration(pools[0].slot_hours)}; {words.count(starts, 'start')}."
    )


def _summary(comparison: Comparison) -> str:
    colours = list(_colours(comparison).values())
    note = (
        "Costs are per run, over all starts. × clairvoyant: the whole bill over that of one who knows the "
        "future. Spot: share of the GPU-hours held. Preempted: times per run that the market took GPUs away."
    )
    table = markup.table(summary(comparison), colours=colours)
    return markup.section(
        "All starts together", table, markup.paragraph(note, "note"), _drawing(comparison, "cost")
    )


def _typical(comparison: Comparison) -> str:
    run = comparison.detail[0]
    start = words.long_time(words.pool_of(comparison, run).time(run.start_slot))
    note = f"From {start} in pool {run.pool}: the market, what each policy held, and how far it came."
    drawings = [_drawing(comparison, panel) for panel in ("market", "holdings", "progress")]
    return markup.section("One typical start", markup.paragraph(note, "note"), *drawings)


def _drawing(comparison: Comparison, panel: str) -> str:
    return markup.figure(panel_svg(comparison, panel, says=SAYS[panel]))


def _decisions(comparison: Comparison) -> str:
    note = (
        "The typical start, decision by decision; slots in which nothing new was decided are one line. "
        "“4 of 8” means that 8 were wanted and 4 held; “to line” is GPU-hours ahead of (+) or behind (−) "
        "the straight line when the line of the table ends."
    )
    folds = [_fold(run, comparison) for run in comparison.detail]
    return markup.section("Every decision and why", markup.paragraph(note, "note"), *folds)


def _fold(run: Run, comparison: Comparison) -> str:
    count = words.count(len(spans(run)), "decision")
    note = f"{count}, {format_usd(run.cost_usd)}, {words.finish(comparison.job, run.finish_hours)}"
    body = markup.table(decisions(run, comparison), kind="lines")
    return markup.folded(run.policy, note, body, _colours(comparison)[run.policy])


def _starts(comparison: Comparison) -> str:
    starts = len({(run.pool, run.start_slot) for run in comparison.runs})
    body = starts_table(comparison)
    note = "cost, finish and preemptions of every run"
    return markup.section("Start by start", markup.folded(words.count(starts, "start"), note, body))


def _colours(comparison: Comparison) -> dict[str, str]:
    """Return each policy's colour, the clairvoyant's as the page's own grey."""
    known = looks(one.policy for one in comparison.summary)
    return {
        name: "var(--clairvoyant)" if look.colour == CLAIRVOYANT else look.colour
        for name, look in known.items()
    }
