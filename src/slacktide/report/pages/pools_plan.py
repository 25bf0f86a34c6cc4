"""A plan over pools as one HTML page: where to start, what moving may save, and what that rests on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slacktide.core.files import write_whole
from slacktide.report.figures.pools_plan import pools_plan_svg
from slacktide.report.file_formats import check_page
from slacktide.report.pages.rendering import drawing, render
from slacktide.report.text.tables import pools_plan as text

if TYPE_CHECKING:
    from slacktide.results.pools_plan import PoolsPlan


def write_pools_plan(plan: PoolsPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as a self-contained page; raises InputError for a file that does not end in .html."""
    check_page(path)
    write_whole(path, page(plan).encode())


def page(plan: PoolsPlan) -> str:
    """Return the whole page."""
    said = (*text.verdict(plan).splitlines(), text.start(plan), text.saving(plan))
    return render(
        "plan.html",
        title=f"Plan of {plan.job.name}",
        said=[sentence for sentence in said if sentence],
        picture=drawing(pools_plan_svg(plan)),
        changes=(),
        policies=text.outlooks(plan),
        pools=text.pools(plan),
        pools_note=text.POOLS_NOTE,
        assumptions=(*plan.assumptions, f"market: {plan.market}"),
    )
