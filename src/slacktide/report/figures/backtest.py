"""A back-test as one picture: one typical start in detail, and the bills of all starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.drawing import sheet, style
from slacktide.report.figures.drawing.scene import scene
from slacktide.report.figures.drawing.sheet import Row
from slacktide.report.figures.drawing.style import INK, Look, drawable, looks, save_picture
from slacktide.report.figures.panels.parts import aside, headline, usd_ticks
from slacktide.report.figures.run import PANELS, panel_rows, stacked, titled
from slacktide.results.run import CLAIRVOYANT, OVER_POOLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import Run

SAYS = "Mean cost of each policy with its p10 to p90 range, as a multiple of the clairvoyant's"
GOLDEN = (5**0.5 - 1) / 2
"""The fractional parts of its multiples are spread evenly, so that points with similar bills lie apart."""
SPREAD = 0.34  # the height over which the points of starts are spread, a little less than the bar's
CROWD = 60  # with more starts than this their points are drawn smaller


def plot_backtest(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Draw a back-test into a PNG, SVG or PDF file; raises FileError when it cannot be written."""
    shown = scene(comparison.detail)

    def draw() -> Figure:
        rows = [row for panel in PANELS for row in panel_rows(shown, panel)]
        return stacked(shown, [*rows, *_bars(comparison)], _title(comparison))

    save_picture(draw, path, sheet.DOTS_PER_IN)


def cost_svg(comparison: Comparison) -> str:
    """Return the bills of all starts as SVG to embed in a page."""
    shown = scene(comparison.detail)
    return sheet.as_svg(lambda: stacked(shown, _bars(comparison), []), "cost", says=SAYS)


def _bars(comparison: Comparison) -> list[Row]:
    known = looks(one.policy for one in comparison.summary)
    height = 0.25 + 0.43 * len(comparison.summary)
    bars = partial(cost, comparison=comparison, looks=known)
    key = partial(_cost_key, comparison=comparison)
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


def cost(ax: Axes, comparison: Comparison, looks: dict[str, Look]) -> None:
    """Draw each policy's bills: all starts, mean, p10–p90, and the ratio to the clairvoyant's."""
    names = style.short_names(looks)
    for row, one in enumerate(comparison.summary):
        runs, colour = words.runs_of(comparison, one.policy), looks[one.policy].colour
        _bar(ax, row, one, colour, max(run.cost_usd for run in runs))
        _starts(ax, row, runs)
        named = drawable(words.in_pool(names[one.policy], one.pool), 60)
        _row_text(ax, row, named, weight="bold", color=colour)
        bill = words.usd_range(one.p10_cost_usd, one.p90_cost_usd)
        share = words.in_time(comparison, one.policy)
        _row_text(
            ax, row, f"mean {format_usd(one.mean_cost_usd)} · p10–p90 {bill} · on time {share}", ha="right"
        )
    _cost_axis(ax, comparison)


def _bar(ax: Axes, row: int, one: PolicySummary, colour: str, most_usd: float) -> None:
    low, high = one.p10_cost_usd, one.p90_cost_usd
    ax.barh(row, one.mean_cost_usd, height=0.42, color=colour, alpha=0.45, lw=0)
    if high > low:
        ax.plot([low, high], [row, row], color=INK, lw=1.1, marker="|", ms=7)
    end = (max(one.mean_cost_usd, most_usd), row)
    text = words.ratio(one.cost_over_clairvoyant)
    ax.annotate(text, end, (6, 0), textcoords="offset points", va="center", weight="bold")


def _starts(ax: Axes, row: int, runs: Sequence[Run]) -> None:
    """Draw the bill of each start, as a cross if it was late; nothing where there is only one start."""
    if len(runs) < 2:
        return
    heights = row + SPREAD * (np.arange(len(runs)) * GOLDEN % 1.0 - 0.5)
    usd, in_time = np.array([run.cost_usd for run in runs]), np.array([run.on_time for run in runs])
    size = 3.4 if len(runs) <= CROWD else 2.0
    ax.plot(usd[in_time], heights[in_time], color=INK, ls="", marker="o", ms=size, mew=0, alpha=0.6)
    ax.plot(usd[~in_time], heights[~in_time], color=INK, ls="", marker="x", ms=size + 0.8, mew=1.0)


def _cost_axis(ax: Axes, comparison: Comparison) -> None:
    most = max(run.cost_usd for run in comparison.runs)
    yardstick = next((one for one in comparison.summary if one.policy in (CLAIRVOYANT, OVER_POOLS)), None)
    if yardstick is not None:
        rows = np.arange(len(comparison.summary))
        usd = np.full(len(rows), yardstick.mean_cost_usd)
        ax.vlines(usd, rows - 0.25, rows + 0.25, colors=INK, lw=1.0, ls=(0, (1, 1)))
    ax.set_xlim(0.0, most * 1.1 if most > 0 else 1.0)
    ax.set_ylim(len(comparison.summary) - 0.62, -0.85)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    usd_ticks(ax.xaxis, 7)
    ax.grid(axis="x")


def _row_text(ax: Axes, row: int, text: str, *, ha: str = "left", **looks: Any) -> None:
    """Write above a bar, at the left or the right end of the panel."""
    where: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "bottom", "size": 8.5}
    ax.text(1.0 if ha == "right" else 0.0, row - 0.31, text, ha=ha, **where, **looks)


def _cost_key(ax: Axes, comparison: Comparison) -> None:
    """Say over what the costs are averaged and what the marks mean."""
    ax.set_axis_off()
    starts = len(words.runs_of(comparison, comparison.summary[0].policy))
    pools = f" in {len(comparison.pools)} pools" if len(comparison.pools) > 1 and not comparison.roams else ""
    headline(ax, f"Cost against the clairvoyant, {words.count(starts, 'start')}{pools}")
    each = "" if starts < 2 else " · points: each start, a cross if late · line: p10–p90"
    aside(ax, f"bar: mean{each} · dotted: the clairvoyant's mean")
