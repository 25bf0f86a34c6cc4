"""A back-test as one picture: its typical start as any run is shown, and the bills of all starts."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from slacktide.core.files import write_whole
from slacktide.report import words
from slacktide.report.figures.drawing import sheet
from slacktide.report.figures.drawing.scene import scene
from slacktide.report.figures.drawing.sheet import Row
from slacktide.report.figures.drawing.style import drawing, looks
from slacktide.report.figures.panels import cost
from slacktide.report.figures.run import PANELS, panel_rows, stacked, titled

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison

SAYS = "Mean cost of each policy with its p10 to p90 range, as a multiple of the clairvoyant's"


def plot_backtest(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write a back-test as a PNG picture; raises InputError when the path cannot be written."""
    shown = scene(comparison.detail)
    with drawing():
        rows = [row for panel in PANELS for row in panel_rows(shown, panel)]
        picture = sheet.as_picture(stacked(shown, [*rows, *_bars(comparison)], _title(comparison)), path)
    write_whole(path, picture)


def cost_svg(comparison: Comparison) -> str:
    """Return the bills of all starts as SVG to stand inside a page."""
    with drawing():
        return sheet.as_svg(stacked(scene(comparison.detail), _bars(comparison), []), "cost", says=SAYS)


def _bars(comparison: Comparison) -> list[Row]:
    known = looks(one.policy for one in comparison.summary)
    height = 0.25 + 0.43 * len(comparison.summary)
    bars = partial(cost.cost, comparison=comparison, looks=known)
    key = partial(cost.cost_key, comparison=comparison)
    return [Row(key, 0.02, 0.4, timed=False), Row(bars, height, 0.05, timed=False, below_in=0.3)]


def _title(comparison: Comparison) -> list[str]:
    shown = scene(comparison.detail)
    starts = words.starts_of(comparison)
    among = f", one of {starts} starts" if starts > 1 else ""
    pool = f"pool {words.plain(shown.pool.name, 40)}"
    where = words.count(len(shown.pools), "pool") if shown.pools else pool
    place = f"{words.plain(comparison.market, 60)}, {where}"
    return titled(
        f"{words.plain(comparison.job.name, 40)}: {words.task(comparison.job)}",
        f"{place}; start shown: {words.long_time(shown.start)}{among}",
    )
