"""A plan as one HTML page: what it will probably cost, the picture, and what that rests on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.files import write_whole
from slacktide.report.figures.plan import plan_svg
from slacktide.report.file_formats import check_page
from slacktide.report.pages import markup
from slacktide.report.tables import plan as text
from slacktide.report.tables.grid import Column, Grid

if TYPE_CHECKING:
    from slacktide.results.plan import JobPlan


def write_plan(plan: JobPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as a self-contained page; raises InputError for a file that does not end in .html."""
    check_page(path)
    write_whole(path, page(plan).encode())


def page(plan: JobPlan) -> str:
    """Return the whole page."""
    changes = [words.strip() for words in (*text.deadline_words(plan), *text.width_words(plan))]
    parts = [
        f"<header>\n<h1>{markup.text(f'Plan of {plan.job.name}')}</h1>",
        *(markup.paragraph(sentence) for sentence in text.verdict(plan).splitlines()),
        *(markup.paragraph(said) for said in (text.wrong_words(plan), text.last_words(plan)) if said),
        markup.paragraph(text.now(plan)),
        "</header>",
        markup.section("In one picture", markup.figure(plan_svg(plan))),
        markup.section("What would change the cost", markup.bullets(changes)) if changes else "",
        markup.section("Policies side by side", markup.table(_grid(plan))),
        markup.section("This assumes that", markup.bullets((*plan.assumptions, f"market: {plan.market}"))),
        "<footer>Made by Slacktide. Nothing was rented for it; money is USD.</footer>",
    ]
    return markup.document(f"Plan of {plan.job.name}", [part for part in parts if part])


def _grid(plan: JobPlan) -> Grid:
    head, *rows = text.rows(plan)
    columns = tuple(Column(name, right=place > 0) for place, name in enumerate(head))
    return Grid(columns, tuple(tuple(row) for row in rows))
