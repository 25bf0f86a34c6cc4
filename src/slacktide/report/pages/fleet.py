"""A simulated fleet as one HTML page: allocators at one spend, the picture, the money, every job and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slacktide.report.figures.fleet import fleet_svg
from slacktide.report.pages.rendering import colours_of, render
from slacktide.report.text.tables import fleet as text
from slacktide.results.fleet import by_class, outcomes

if TYPE_CHECKING:
    from slacktide.results.fleet import FleetComparison


def page(found: FleetComparison, source: str) -> str:
    """Return the page as HTML that loads nothing else."""
    all_jobs = outcomes(found.month, found.story)
    return render(
        "fleet.html",
        title=f"{text.simulated_time(found.month)} of a fleet",
        said=text.head(found, source),
        common=text.common_line(found),
        policies=text.policies(found),
        colours=list(colours_of(row.policy for row in found.rows).values()),
        picture=fleet_svg(found),
        period=text.first_period(found.month),
        first=found.story.policy,
        money=text.money(found),
        changes=text.change_lines(found),
        classes=text.classes(by_class(all_jobs)),
        jobs=text.jobs(found, all_jobs),
        jobs_counted=f"{len(all_jobs)} jobs",
        notes=text.notes(found),
    )
