"""A simulated fleet as one HTML page: allocators at one spend, the picture, the money, every job and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.files import write_whole
from slacktide.report.figures.fleet import fleet_svg
from slacktide.report.file_formats import check_page
from slacktide.report.pages import markup
from slacktide.report.pages.sections import colours_of
from slacktide.report.sentences import fleet as told
from slacktide.report.tables import fleet as text
from slacktide.results.fleet_jobs import by_class, outcomes

if TYPE_CHECKING:
    from slacktide.results.fleet_comparison import FleetComparison


def write_fleet(found: FleetComparison, source: str, path: str | os.PathLike[str]) -> None:
    """Write a simulated fleet as a self-contained page; raises InputError unless it ends in .html."""
    check_page(path)
    write_whole(path, page(found, source).encode())


def page(found: FleetComparison, source: str) -> str:
    """Return the whole page."""
    all_jobs = outcomes(found.month, found.story)
    colours = colours_of(row.policy for row in found.rows)
    period, first = told.first_period(found.month), found.story.policy
    parts = [
        f"<header>\n<h1>{markup.text(f'{told.simulated_time(found.month)} of a fleet')}</h1>",
        *(markup.paragraph(sentence) for sentence in told.head(found, source)),
        "</header>",
        markup.section(
            "Policies at one common spend",
            markup.paragraph(told.common_line(found)),
            markup.table(text.policies(found), colours=list(colours.values())),
        ),
        markup.section("In one picture", markup.figure(fleet_svg(found))),
        markup.section(f"Money against the {period}, under {first}", markup.table(text.money(found))),
        markup.section("More money, or less", markup.bullets(told.change_lines(found))),
        markup.section("Classes", markup.table(text.classes(by_class(all_jobs)))),
        markup.section(
            "Every job",
            markup.folded(
                "What each job got and why", f"{len(all_jobs)} jobs", markup.table(text.jobs(found, all_jobs))
            ),
        ),
        markup.section("What this rests on", markup.bullets(told.notes(found))),
        "<footer>Made by Slacktide. Nothing was rented for it; money is USD.</footer>",
    ]
    return markup.document(f"{told.simulated_time(found.month)} of a fleet", parts)
