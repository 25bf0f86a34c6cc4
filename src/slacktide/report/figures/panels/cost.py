"""The panel of bills: what every policy paid over all starts, beside the clairvoyant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.report import words
from slacktide.report.figures.panels.parts import aside, headline, usd_ticks
from slacktide.report.figures.style import INK, Look, drawable
from slacktide.results.run import CLAIRVOYANT, OVER_POOLS
from slacktide.units import format_usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slacktide.results.comparison import Comparison, PolicySummary


def cost(ax: Axes, comparison: Comparison, looks: dict[str, Look]) -> None:
    """Draw the mean bill per policy with its p10–p90 range, and how often the clairvoyant's it is."""
    for row, one in enumerate(comparison.summary):
        colour = looks[one.policy].colour
        _bar(ax, row, one, colour)
        named = drawable(words.in_pool(one.policy, one.pool), 60)
        _row_text(ax, row, named, weight="bold", color=colour)
        bill = words.usd_range(one.p10_cost_usd, one.p90_cost_usd)
        share = words.in_time(comparison, one.policy)
        _row_text(
            ax, row, f"mean {format_usd(one.mean_cost_usd)} · p10–p90 {bill} · on time {share}", ha="right"
        )
    _cost_axis(ax, comparison)


def _bar(ax: Axes, row: int, one: PolicySummary, colour: str) -> None:
    low, high = one.p10_cost_usd, one.p90_cost_usd
    ax.barh(row, one.mean_cost_usd, height=0.42, color=colour, alpha=0.75, lw=0)
    if high > low:
        ax.plot([low, high], [row, row], color=INK, lw=1.1, marker="|", ms=7)
    beside = (max(one.mean_cost_usd, high), row)
    text = words.ratio(one.cost_over_clairvoyant)
    ax.annotate(text, beside, (6, 0), textcoords="offset points", va="center", weight="bold")


def _cost_axis(ax: Axes, comparison: Comparison) -> None:
    most = max(max(one.mean_cost_usd, one.p90_cost_usd) for one in comparison.summary)
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


def cost_key(ax: Axes, comparison: Comparison) -> None:
    """Say over what the costs are averaged and what the marks mean."""
    ax.set_axis_off()
    starts = len(words.runs_of(comparison, comparison.summary[0].policy))
    pools = f" in {len(comparison.pools)} pools" if len(comparison.pools) > 1 and not comparison.roams else ""
    headline(ax, f"Cost against the clairvoyant, {words.count(starts, 'start')}{pools}")
    aside(ax, "bar: mean · line: p10–p90 · dotted: the clairvoyant's mean · × over the clairvoyant")
