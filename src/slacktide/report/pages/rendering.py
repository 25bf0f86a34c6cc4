"""Pages from templates, and the pieces that pages about runs share.

Text is escaped, put on one line, and freed of control characters, because it may come from users' files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.core.types import Job
from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.drawing.style import GREY, INK, looks
from slacktide.report.figures.run import PANELS, panel_svg
from slacktide.report.text.tables.backtest import decisions
from slacktide.report.text.tables.grid import Grid

if TYPE_CHECKING:
    from jinja2 import Environment

    from slacktide.results.run import RunResult

OWN = "slacktide.report.pages"
NOTE = (
    "Decisions that change nothing are combined in one line. “4 of 8” means that 8 were wanted and 4 held; "
    "“vs line” is GPU-hours ahead of (+) or behind (−) the straight line when the line of the table ends."
)


def render(template: str, *, package: str = OWN, **values: Any) -> str:
    """Fill a template of a package, which may build on those of Slacktide's own pages."""
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    folders = [PackageLoader(name) for name in dict.fromkeys((package, OWN))]
    return Environment(
        loader=ChoiceLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_plain,
    )


def _plain(value: Any) -> Any:
    """Put text on one line; markup, such as what a macro of a template returns, is left as it is."""
    return words.plain(value) if type(value) is str else value


class Fold(NamedTuple):
    """Tables that open when their heading is clicked; no script is needed."""

    heading: str
    note: str
    tables: Sequence[Grid]
    colour: str = ""


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
    """Return the panels of runs from one start as SVG."""
    return [panel_svg(runs, panel) for panel in PANELS]


def every_decision(runs: Sequence[RunResult]) -> list[Fold]:
    """Return each run's decisions, folded until they are opened."""
    colours = colours_of(run.policy for run in runs)
    folds = []
    for run in runs:
        table = decisions(run)
        count = words.count(len(table.rows), "decision")
        note = f"{count}, {format_usd(run.bill.cost_usd)}, {words.outcome(run)}"
        folds.append(Fold(run.policy, note, [table], colours[run.policy]))
    return folds


def colours_of(policies: Iterable[str]) -> dict[str, str]:
    """Return each policy's colour; ink and the clairvoyant's grey are variables that the page sets."""
    own = {GREY: "var(--clairvoyant)", INK: "var(--ink)"}
    return {name: own.get(look.colour, look.colour) for name, look in looks(policies).items()}
