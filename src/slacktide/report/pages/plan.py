"""A plan as one HTML page: what it will probably cost, the picture, and what that rests on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.core.files import write_whole
from slacktide.report.figures.plan import plan_svg
from slacktide.report.file_formats import check_page
from slacktide.report.pages.rendering import drawing, render
from slacktide.report.text.tables import plan as text
from slacktide.report.text.tables.grid import Column, Grid

if TYPE_CHECKING:
    from slacktide.results.plan import JobPlan


def write_plan(plan: JobPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as a self-contained page; raises InputError for a file that does not end in .html."""
    check_page(path)
    write_whole(path, page(plan).encode())


def page(plan: JobPlan) -> str:
    """Return the whole page."""
    said = (*text.verdict(plan).splitlines(), text.wrong_words(plan), text.last_words(plan), text.now(plan))
    return render(
        "plan.html",
        title=f"Plan of {plan.job.name}",
        said=[sentence for sentence in said if sentence],
        picture=drawing(plan_svg(plan)),
        changes=[change.strip() for change in (*text.deadline_words(plan), *text.width_words(plan))],
        policies=_grid(plan),
        pools=None,
        assumptions=(*plan.assumptions, f"market: {plan.market}"),
    )


def _grid(plan: JobPlan) -> Grid:
    head, *rows = text.rows(plan)
    columns = tuple(Column(name, right=place > 0) for place, name in enumerate(head))
    return Grid(columns, tuple(tuple(row) for row in rows))
