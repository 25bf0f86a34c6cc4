"""A live run as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.events import Decided, Event
from slacktide.files import write_whole
from slacktide.report import bill as bills
from slacktide.report import markup, words
from slacktide.report.figures.run import panel_svg
from slacktide.report.grid import Column, Grid
from slacktide.report.html import job_facts
from slacktide.report.run_scene import RunScene
from slacktide.report.run_sentences import sentence
from slacktide.report.run_words import reason, since, task
from slacktide.units import format_usd

if TYPE_CHECKING:
    from slacktide.results.bill import Bill

SAYS = {
    "holding": "Spot and on-demand GPUs held over time, with preemptions and restarts",
    "progress": "Share of the work done over time, against a straight line to the deadline",
    "prices": "Prices per GPU-hour over time",
    "spending": "Money spent over time, beside on demand alone and the clairvoyant",
}
DECISION = (
    Column("when", right=False), Column("offered"), Column("$/GPU-hour"), Column("spot"), Column("on demand"),
    Column("done"), Column("to line"), Column("why", right=False, breaks=True),
)  # fmt: skip
HAPPENED = (Column("when", right=False), Column("who", right=False), Column("why", right=False, breaks=True))
SHOWN_SIGNALS = {"progress_gpu_hours", "line_gpu_hours", "spot_gpus", "spot_usd_per_gpu_hour"}
"""Signals that the columns beside them show already."""


def write_page(scene: RunScene, bill: Bill, path: str | os.PathLike[str]) -> None:
    """Write a run as a self-contained page; raises InputError when the path cannot be written."""
    write_whole(path, page(scene, bill).encode())


def page(scene: RunScene, bill: Bill) -> str:
    """Return the whole page."""
    parts = [
        _head(scene, bill),
        _bill(bill),
        _pictures(scene),
        _decisions(scene),
        _events(scene),
        "<footer>Made by Slacktide. Times count from the job's start on the market's clock.</footer>",
    ]
    return markup.document(f"Run of {scene.name}", parts)


def _head(scene: RunScene, bill: Bill) -> str:
    job, start = scene.job, words.long_time(scene.pool.time(scene.start_slot))
    compared = ". ".join(f"{name.capitalize()}: {said}" for name, said in bills.beside(bill))
    where = f"Run by {scene.policy} in pool {scene.pool.name}, on the market of {start}."
    return "\n".join(
        [
            "<header>",
            markup.paragraph("Run", "kicker"),
            f"<h1>{markup.text(scene.name)}</h1>",
            markup.paragraph(f"{task(job)}.", "asked"),
            markup.paragraph(" · ".join(job_facts(job)), "facts"),
            markup.paragraph(where, "facts"),
            f'<div class="verdict">{markup.paragraph(f"{bills.outcome(bill)}.")}'
            f"{markup.paragraph(f'{compared}.')}</div>",
            "</header>",
        ]
    )


def _bill(bill: Bill) -> str:
    facts = [f"{name}: {said}" for name, said in (*bills.happenings(bill), *bills.beside(bill))]
    return markup.section("The bill", markup.table(bills.paid(bill)), markup.bullets(facts))


def _pictures(scene: RunScene) -> str:
    drawn = [markup.figure(panel_svg(scene, panel, says=says)) for panel, says in SAYS.items()]
    return markup.section("The whole run", *drawn)


def _decisions(scene: RunScene) -> str:
    decided = scene.told(Decided)
    note = (
        "“2 of 4” means that 4 were wanted and 2 could be had; “to line” is GPU-hours ahead of (+) or "
        "behind (−) the straight line to the deadline when it was decided."
    )
    rows = tuple(_decision(scene, event) for event in decided)
    table = markup.table(Grid(DECISION, rows), kind="lines")
    count = words.count(len(decided), "decision")
    return markup.section(
        "Every decision and why",
        markup.paragraph(note, "note"),
        markup.folded(count, "one per slot or change", table),
    )


def _decision(scene: RunScene, event: Decided) -> tuple[str, ...]:
    done, hours = event.state.progress_gpu_hours, scene.since_start(event)
    ahead = done - scene.job.line_gpu_hours(hours)
    told = {name: value for name, value in event.signals.items() if name not in SHOWN_SIGNALS}
    why = reason(event.why, told) if event.ending is None else sentence(event)
    return (
        since(hours),
        str(event.quote.spot_gpus),
        f"{event.quote.spot_usd_per_gpu_hour:.2f}",
        _of(event.spot_gpus, event.wanted_spot_gpus),
        _of(event.on_demand_gpus, event.wanted_on_demand_gpus),
        words.percent(done / scene.job.work_gpu_hours),
        f"{'+' if ahead >= 0.05 else '−' if ahead <= -0.05 else ''}{words.gpu_hours(abs(ahead))}",
        why,
    )


def _of(held: int, wanted: int) -> str:
    return str(held) if held == wanted else f"{held} of {wanted}"


def _events(scene: RunScene) -> str:
    kept = [event for event in scene.events if not isinstance(event, Decided)]
    rows = tuple(_row(scene, event) for event in kept)
    spent = sum(charge.usd for _, charge in scene.stretches)
    note = f"what the market, the workers and users did, and every payment; {format_usd(spent)} together"
    table = markup.table(Grid(HAPPENED, rows), kind="lines")
    return markup.section("What happened", markup.folded(words.count(len(kept), "event"), note, table))


def _row(scene: RunScene, event: Event) -> tuple[str, ...]:
    return since(scene.since_start(event)), event.actor, sentence(event)
