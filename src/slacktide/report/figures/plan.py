"""A plan as one picture: bills of every policy, GPUs over time, and what deadline and width would change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.units import format_duration
from slacktide.report.figures.drawing import sheet, style
from slacktide.report.figures.drawing.style import FAINT, INK, PALETTE, drawable, looks, save_picture
from slacktide.report.figures.panels.market import pool_letter, pool_look
from slacktide.report.figures.panels.parts import usd_ticks
from slacktide.report.words import in_pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.results.plan import CurvePoint, JobPlan, Moving, Outcomes

SAYS = "Bills of each policy, GPUs or pools held over time, and mean cost against deadline and against width"
SIZE_IN = (11.0, 7.4)
LETTERED = 0.08  # an area that is nowhere higher than this share has no room for its letter


def plot_plan(plan: JobPlan, path: str | os.PathLike[str]) -> None:
    """Draw a plan into a PNG, SVG or PDF file; raises FileError when it cannot be written."""
    save_picture(lambda: _figure(plan, titled=True), path, sheet.DOTS_PER_IN)


def plan_svg(plan: JobPlan) -> str:
    """Return the picture as SVG to embed in a page."""
    return sheet.as_svg(lambda: _figure(plan, titled=False), "plan", says=SAYS)


def _figure(plan: JobPlan, *, titled: bool) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_IN)
    # Where a job may move, policies are named with their pool, and the legend on the right names pools.
    left, right, gap = (0.15, 0.97, 0.24) if plan.moving is None else (0.21, 0.86, 0.3)
    top = 0.86 if titled else 0.95
    axes = figure.subplots(2, 2)
    figure.subplots_adjust(left=left, right=right, bottom=0.08, top=top, hspace=0.42, wspace=gap)
    _bills(axes[0, 0], plan)
    if plan.moving is None:
        _gpus(axes[0, 1], plan)
    else:
        _where(axes[0, 1], plan, plan.moving)
    widest = plan.by_width[-1].at if plan.by_width else plan.job.max_gpus
    _curve(axes[1, 0], plan.by_deadline, plan.job.deadline_hours, "deadline, hours from the start")
    _curve(axes[1, 1], plan.by_width, widest, "maximum GPUs")
    axes[1, 0].set_title("Cost against deadline", size=10)
    axes[1, 1].set_title("Cost against width", size=10)
    if titled:
        figure.text(0.03, 0.95, drawable(f"Plan of {plan.job.name}", 60), size=14, weight="bold")
        figure.text(0.03, 0.915, drawable(_subtitle(plan), 150))
    return figure


def _subtitle(plan: JobPlan) -> str:
    cost, stays_in = plan.outlooks[0].futures.cost_usd, plan.outlooks[0].pool
    where = f"in {stays_in or plan.pool}"
    if plan.moving is not None and not stays_in:
        where = f"over {len(plan.moving.pools)} pools"
    usual = f"probably ${cost.p50:,.0f} (${cost.p10:,.0f} to ${cost.p90:,.0f})"
    return f"{plan.policy} {where}: {usual}, by {format_duration(plan.job.deadline_hours)}"


def _bills(ax: Axes, plan: JobPlan) -> None:
    """Draw each policy's p10 to p90 and median: over simulated futures, and thinner from recent starts."""
    known = looks(outlook.policy for outlook in plan.outlooks)
    for row, outlook in enumerate(plan.outlooks):
        colour = known[outlook.policy].colour
        _bill(ax, outlook.futures, row if outlook.history is None else row - 0.12, colour, 6.0)
        if outlook.history is not None:
            _bill(ax, outlook.history, row + 0.2, colour, 2.0)
    short = style.short_names(known, 22)
    names = [drawable(in_pool(short[one.policy], one.pool), 36) for one in plan.outlooks]
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    usd_ticks(ax.xaxis, 6)
    ax.set_xlabel("p10 to p90; dot: median")
    title = "Bills: simulated futures (thick), recent starts (thin)"
    if plan.moving is not None:
        title = f"Bills over {plan.outlooks[0].futures.runs} simulated futures"
    ax.set_title(title, size=10)
    ax.grid(axis="x")


def _bill(ax: Axes, found: Outcomes, row: float, colour: str, width: float) -> None:
    cost = found.cost_usd
    ax.plot([cost.p10, cost.p90], [row, row], color=colour, lw=width, alpha=0.55)
    ax.plot([cost.p50], [row], "o", color=colour, ms=5 if width > 3 else 3)


def _gpus(ax: Axes, plan: JobPlan) -> None:
    hours = [held.hours for held in plan.gpus]
    kinds = [held.spot_gpus for held in plan.gpus], [held.on_demand_gpus for held in plan.gpus]
    names = ("spot", "on demand")
    ax.stackplot(hours, *kinds, labels=names, colors=(PALETTE[0], PALETTE[1]), step="post", alpha=0.8)
    ax.set_xlim(0.0, plan.job.deadline_hours)
    ax.set_ylim(0.0, plan.job.max_gpus * 1.2)
    ax.set_xlabel("hours from the start")
    ax.set_title("GPUs held, on average", size=10)
    ax.legend(loc="upper right", ncols=2)
    ax.grid(axis="y")


def _curve(ax: Axes, points: Sequence[CurvePoint], now: float, label: str) -> None:
    """Draw the mean and p10 to p90 of the cost, and a line at the job as it is."""
    ax.set_xlabel(label)
    if not points:
        ax.text(0.5, 0.5, "nothing to compare", ha="center", transform=ax.transAxes, color=FAINT)
        return
    at = [point.at for point in points]
    low, high = [point.p10_cost_usd for point in points], [point.p90_cost_usd for point in points]
    ax.fill_between(at, low, high, color=PALETTE[0], alpha=0.18, lw=0, label="p10 to p90")
    ax.plot(at, [point.mean_cost_usd for point in points], "o-", color=PALETTE[0], label="mean")
    ax.axvline(now, color=INK, lw=0.8, ls=(0, (4, 2)), label="as the job is")
    ax.set_ylim(bottom=0.0)
    usd_ticks(ax.yaxis, 6)
    ax.set_xticks(at, [f"{one:g}" for one in at])
    ax.legend(loc="lower left", borderaxespad=0.6)
    ax.grid(axis="y")


def _where(ax: Axes, plan: JobPlan, moving: Moving) -> None:
    """Draw the share of futures in which GPUs are held in each pool, stacked."""
    base = np.zeros(len(moving.held[0][1]))
    edges = np.arange(len(base) + 1) * moving.slot_hours
    for at, (name, shares) in enumerate(moving.held):
        top = base + np.array(shares)
        if any(shares):
            label = f"{pool_letter(at)}  {drawable(name, 24)}"
            ax.stairs(top, edges, baseline=base, fill=True, label=label, **pool_look(at))
        first, last = _widest(shares)
        if shares[first] >= LETTERED:
            middle = (base[first] + top[first]) / 2
            hours = (edges[first] + edges[last + 1]) / 2
            ax.text(hours, middle, pool_letter(at), ha="center", va="center", size=9)
        base = top
    ax.stairs(base, edges, baseline=None, color=INK, lw=0.8)
    ax.set_xlim(0.0, plan.job.deadline_hours)
    ax.set_ylim(0.0, 1.05)
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.set_ylabel("share of the futures")
    ax.set_xlabel("hours from the start")
    ax.set_title("Where it would hold GPUs, if it moves", size=10)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _widest(shares: Sequence[float]) -> tuple[int, int]:
    """Return the first and last of the slots at which a share first stays at its maximum."""
    first = last = int(np.argmax(shares))
    while last + 1 < len(shares) and shares[last + 1] == shares[first]:
        last += 1
    return first, last
