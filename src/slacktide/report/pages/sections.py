"""What every page about runs shows: the job, the pictures, and each decision with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from slacktide.report import words
from slacktide.report.figures.run import PANELS, panel_svg
from slacktide.report.figures.style import GREY, INK, looks
from slacktide.report.pages import markup
from slacktide.report.tables.decisions import decisions, spans
from slacktide.types import Job
from slacktide.units import format_usd

if TYPE_CHECKING:
    from slacktide.results.run import RunResult

NOTE = (
    "Decisions that change nothing are combined in one line. “4 of 8” means that 8 were wanted and 4 held; "
    "“to line” is GPU-hours ahead of (+) or behind (−) the straight line when the line of the table ends."
)


def header(
    kind: str, name: str, job: Job, where: str, verdict: Sequence[str], but: Iterable[str] = ()
) -> str:
    """Return the top of a page: what was asked, where it was run, and what came of it."""
    said = [markup.paragraph(sentence) for sentence in verdict]
    said += [markup.paragraph(sentence, "but") for sentence in but]
    return "\n".join(
        [
            "<header>",
            markup.paragraph(kind, "kicker"),
            f"<h1>{markup.text(name)}</h1>",
            markup.paragraph(f"{words.task(job)}.", "asked"),
            markup.paragraph(" · ".join(job_facts(job)), "facts"),
            markup.paragraph(where, "facts"),
            f'<div class="verdict">{"".join(said)}</div>',
            "</header>",
        ]
    )


def job_facts(job: Job) -> list[str]:
    """Return the terms of a job, each in a few words."""
    facts = [] if words.open_ended(job) else ["hard deadline" if job.hard else "soft deadline"]
    if job.value_usd > 0:
        facts.append(f"worth {format_usd(job.value_usd)} on time")
    if not job.hard and job.worthless_after_hours is not None:
        facts.append(f"worthless after {words.duration(job.worthless_after_hours)}")
    facts.append(f"restart {words.duration(job.restart_hours)}")
    if math.isinf(job.checkpoint_hours):
        facts.append("no checkpoints")
    elif job.checkpoint_hours > 0:
        facts.append(f"checkpoint every {words.duration(job.checkpoint_hours)}")
    if job.max_cost_usd is not None:
        facts.append(f"at most {format_usd(job.max_cost_usd)}")
    return [*facts, f"billed by the {job.billing}", f"speedup {job.speedup!r}"]


def pictures(runs: Sequence[RunResult]) -> list[str]:
    """Return the panels of runs from one start, each as a figure of its own."""
    return [markup.figure(panel_svg(runs, panel)) for panel in PANELS]


def every_decision(runs: Sequence[RunResult]) -> str:
    """Return a section with each run's decisions, folded until they are asked for."""
    colours = colours_of(run.policy for run in runs)
    folds = [_fold(run, colours[run.policy]) for run in runs]
    return markup.section("Every decision and why", markup.paragraph(NOTE, "note"), *folds)


def colours_of(policies: Iterable[str]) -> dict[str, str]:
    """Return each policy's colour; ink and the clairvoyant's grey are the page's own."""
    own = {GREY: "var(--clairvoyant)", INK: "var(--ink)"}
    return {name: own.get(look.colour, look.colour) for name, look in looks(policies).items()}


def _fold(run: RunResult, colour: str) -> str:
    count = words.count(len(spans(run)), "decision")
    note = f"{count}, {format_usd(run.bill.cost_usd)}, {words.outcome(run)}"
    return markup.folded(run.policy, note, markup.table(decisions(run), kind="lines"), colour)
