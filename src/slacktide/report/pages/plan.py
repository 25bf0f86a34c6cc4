"""A plan as one HTML page: what the job will probably cost, the picture, and the assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slacktide.report.figures.plan import plan_svg
from slacktide.report.pages.rendering import render
from slacktide.report.text.sentences.plan import deadline_words, opening, width_words
from slacktide.report.text.tables.plan import POOLS_NOTE, policies, pools

if TYPE_CHECKING:
    from slacktide.results.plan import JobPlan


def page(plan: JobPlan) -> str:
    """Return the page as HTML that loads nothing else."""
    return render(
        "plan.html",
        title=f"Plan of {plan.job.name}",
        said=[line for sentence in opening(plan) for line in sentence.splitlines()],
        picture=plan_svg(plan),
        changes=[change.strip() for change in (*deadline_words(plan), *width_words(plan))],
        policies=policies(plan),
        pools=None if plan.moving is None else pools(plan.moving),
        pools_note=POOLS_NOTE,
        assumptions=(*plan.assumptions, f"market: {plan.market}"),
    )
