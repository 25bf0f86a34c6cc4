"""A plan over pools as one picture: bills of every policy, and where the job would be when."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.files import write_whole
from slacktide.core.units import format_duration
from slacktide.report.figures.drawing import sheet
from slacktide.report.figures.drawing.names import short_names
from slacktide.report.figures.drawing.style import INK, drawable, drawing, looks
from slacktide.report.figures.panels.parts import usd_ticks
from slacktide.report.figures.panels.pools import letter, look
from slacktide.report.words import in_pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.results.pools_plan import PoolsPlan

SAYS = "Bills of each policy, and the share of futures in which the job is in each pool over time"
SIZE_IN = (11.0, 6.4)
LETTERED = 0.08
"""An area that is nowhere higher than this share has no room for its letter."""


def plot_pools_plan(plan: PoolsPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as a picture in the format of the file's ending; raises InputError for another one."""
    with drawing():
        picture = sheet.as_picture(_figure(plan, titled=True), path)
    write_whole(path, picture)


def pools_plan_svg(plan: PoolsPlan) -> str:
    """Return the picture as SVG to stand inside a page."""
    with drawing():
        return sheet.as_svg(_figure(plan, titled=False), "plan", says=SAYS)


def _figure(plan: PoolsPlan, *, titled: bool) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_IN)
    FigureCanvasAgg(figure)
    bills, where = figure.subplots(2, 1, height_ratios=[1.0, 1.5])
    figure.subplots_adjust(left=0.26, right=0.8, bottom=0.09, top=0.85 if titled else 0.95, hspace=0.48)
    _bills(bills, plan)
    _where(where, plan)
    if titled:
        cost = plan.outlooks[0].futures.cost_usd
        figure.text(0.03, 0.95, drawable(f"Plan of {plan.job.name}", 60), size=14, weight="bold")
        told = f"{plan.policy}: probably ${cost.p50:,.2f} (${cost.p10:,.2f} to ${cost.p90:,.2f})"
        figure.text(0.03, 0.91, drawable(f"{told}, by {format_duration(plan.job.deadline_hours)}", 150))
    return figure


def _bills(ax: Axes, plan: PoolsPlan) -> None:
    """Draw p10 to p90 of each policy and its median."""
    known = looks(one.policy for one in plan.outlooks)
    for row, one in enumerate(plan.outlooks):
        cost, colour = one.futures.cost_usd, known[one.policy].colour
        ax.plot([cost.p10, cost.p90], [row, row], color=colour, linewidth=6.0, alpha=0.55)
        ax.plot([cost.p50], [row], "o", color=colour, markersize=5)
    short = short_names(known)
    names = [drawable(in_pool(short[one.policy], one.pool), 36) for one in plan.outlooks]
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    usd_ticks(ax.xaxis, 6)
    ax.set_xlabel("p10 to p90; dot: median")
    ax.set_title(f"Bills over {plan.outlooks[0].futures.runs} futures", loc="left", size=10)
    ax.grid(axis="x")


def _where(ax: Axes, plan: PoolsPlan) -> None:
    """Draw the share of futures in which GPUs are held in each pool, on top of each other."""
    base = np.zeros(len(plan.held[0][1]))
    edges = np.arange(len(base) + 1) * plan.slot_hours
    for at, (name, shares) in enumerate(plan.held):
        top = base + np.array(shares)
        if any(shares):
            label = f"{letter(at)}  {drawable(name, 24)}"
            ax.stairs(top, edges, baseline=base, fill=True, label=label, **look(at))
        first, last = _widest(shares)
        if shares[first] >= LETTERED:
            middle = (base[first] + top[first]) / 2
            hours = (edges[first] + edges[last + 1]) / 2
            ax.text(hours, middle, letter(at), ha="center", va="center", size=9)
        base = top
    ax.stairs(base, edges, baseline=None, color=INK, lw=0.8)
    ax.set_xlim(0.0, plan.job.deadline_hours)
    ax.set_ylim(0.0, 1.05)
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.set_xlabel("hours from the start")
    ax.set_title("Where it would hold GPUs, if it moves: share of the futures", loc="left", size=10)
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))


def _widest(shares: Sequence[float]) -> tuple[int, int]:
    """Return the first and the last slot of the first stretch in which a share is at its greatest."""
    first = last = int(np.argmax(shares))
    while last + 1 < len(shares) and shares[last + 1] == shares[first]:
        last += 1
    return first, last
