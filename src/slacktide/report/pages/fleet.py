"""A simulated fleet as one HTML page: allocators at one spend, the picture, the money, every job and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.core.files import write_whole
from slacktide.report.figures.fleet import fleet_svg
from slacktide.report.file_formats import check_page
from slacktide.report.pages.rendering import drawing, render
from slacktide.report.pages.sections import colours_of
from slacktide.report.text.sentences import fleet as sentences
from slacktide.report.text.tables.fleets import fleet as text
from slacktide.results.fleets.fleet_jobs import by_class, outcomes

if TYPE_CHECKING:
    from slacktide.results.fleets.fleet_comparison import FleetComparison


def write_fleet(found: FleetComparison, source: str, path: str | os.PathLike[str]) -> None:
    """Write a simulated fleet as a self-contained page; raises InputError unless it ends in .html."""
    check_page(path)
    write_whole(path, page(found, source).encode())


def page(found: FleetComparison, source: str) -> str:
    """Return the whole page."""
    all_jobs = outcomes(found.month, found.story)
    return render(
        "fleet.html",
        title=f"{sentences.simulated_time(found.month)} of a fleet",
        said=sentences.head(found, source),
        common=sentences.common_line(found),
        policies=text.policies(found),
        colours=list(colours_of(row.policy for row in found.rows).values()),
        picture=drawing(fleet_svg(found)),
        period=sentences.first_period(found.month),
        first=found.story.policy,
        money=text.money(found),
        changes=sentences.change_lines(found),
        classes=text.classes(by_class(all_jobs)),
        jobs=text.jobs(found, all_jobs),
        jobs_counted=f"{len(all_jobs)} jobs",
        notes=sentences.notes(found),
    )
