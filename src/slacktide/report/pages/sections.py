"""What every page about runs shows: the job's terms, the pictures, and each decision with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from slacktide.core.types import Job
from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.drawing.style import GREY, INK, looks
from slacktide.report.figures.run import PANELS, panel_svg
from slacktide.report.pages.rendering import Fold, drawing
from slacktide.report.text.tables.decisions import decisions, spans

if TYPE_CHECKING:
    from slacktide.results.run import RunResult

NOTE = (
    "Decisions that change nothing are combined in one line. “4 of 8” means that 8 were wanted and 4 held; "
    "“vs line” is GPU-hours ahead of (+) or behind (−) the straight line when the line of the table ends."
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


def pictures(runs: Sequence[RunResult]) -> list[Any]:
    """Return the panels of runs from one start as drawings."""
    return [drawing(panel_svg(runs, panel)) for panel in PANELS]


def every_decision(runs: Sequence[RunResult]) -> list[Fold]:
    """Return each run's decisions, folded until they are opened."""
    colours = colours_of(run.policy for run in runs)
    return [_fold(run, colours[run.policy]) for run in runs]


def colours_of(policies: Iterable[str]) -> dict[str, str]:
    """Return each policy's colour; ink and the clairvoyant's grey are the page's own."""
    own = {GREY: "var(--clairvoyant)", INK: "var(--ink)"}
    return {name: own.get(look.colour, look.colour) for name, look in looks(policies).items()}


def _fold(run: RunResult, colour: str) -> Fold:
    count = words.count(len(spans(run)), "decision")
    note = f"{count}, {format_usd(run.bill.cost_usd)}, {words.outcome(run)}"
    return Fold(run.policy, note, [decisions(run)], colour)
