"""A plan as one picture: bills of every policy, GPUs over time, and what deadline and width would change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slacktide.core.files import write_whole
from slacktide.core.units import format_duration
from slacktide.report.figures.drawing import sheet
from slacktide.report.figures.drawing.names import short_names
from slacktide.report.figures.drawing.style import FAINT, INK, PALETTE, drawable, drawing, looks
from slacktide.report.figures.panels.parts import usd_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.results.plan import CurvePoint, JobPlan

SAYS = "Bills of each policy, GPUs held over time, and mean cost against deadline and against width"
SIZE_IN = (11.0, 7.4)


def plot_plan(plan: JobPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as a picture in the format of the file's ending; raises InputError for another one."""
    with drawing():
        picture = sheet.as_picture(_figure(plan, titled=True), path)
    write_whole(path, picture)


def plan_svg(plan: JobPlan) -> str:
    """Return the picture as SVG to stand inside a page."""
    with drawing():
        return sheet.as_svg(_figure(plan, titled=False), "plan", says=SAYS)


def _figure(plan: JobPlan, *, titled: bool) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_IN)
    FigureCanvasAgg(figure)
    top = 0.86 if titled else 0.95
    axes = figure.subplots(2, 2)
    figure.subplots_adjust(left=0.15, right=0.97, bottom=0.08, top=top, hspace=0.42, wspace=0.24)
    _bills(axes[0, 0], plan)
    _gpus(axes[0, 1], plan)
    hours = _curve(plan.by_deadline, plan.job.deadline_hours, "deadline, hours from the start")
    gpus = _curve(plan.by_width, plan.job.max_gpus, "maximum GPUs")
    hours(axes[1, 0])
    gpus(axes[1, 1])
    axes[1, 0].set_title("Cost against deadline", loc="left", size=10)
    axes[1, 1].set_title("Cost against width", loc="left", size=10)
    if titled:
        cost = plan.outlooks[0].futures.cost_usd
        figure.text(0.03, 0.95, drawable(f"Plan of {plan.job.name}", 60), size=14, weight="bold")
        told = (
            f"{plan.policy} in {plan.pool}: probably ${cost.p50:,.0f} (${cost.p10:,.0f} to ${cost.p90:,.0f})"
        )
        figure.text(0.03, 0.915, drawable(f"{told}, by {format_duration(plan.job.deadline_hours)}", 150))
    return figure


def _bills(ax: Axes, plan: JobPlan) -> None:
    """Draw p10 to p90 of each policy and its median: simulated futures, thinner from recent starts."""
    known = looks(outlook.policy for outlook in plan.outlooks)
    for row, outlook in enumerate(plan.outlooks):
        colour = known[outlook.policy].colour
        for offset, spread, width in ((-0.12, outlook.futures, 6.0), (0.2, outlook.history, 2.0)):
            cost = spread.cost_usd
            ax.plot([cost.p10, cost.p90], [row + offset] * 2, color=colour, linewidth=width, alpha=0.55)
            ax.plot([cost.p50], [row + offset], "o", color=colour, markersize=5 if width > 3 else 3)
    ax.set_yticks(range(len(plan.outlooks)), list(short_names(known, 22).values()))
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    usd_ticks(ax.xaxis, 6)
    ax.set_xlabel("p10 to p90; dot: median")
    ax.set_title("Bills: simulated futures (thick), recent starts (thin)", loc="left", size=10)
    ax.grid(axis="x")


def _gpus(ax: Axes, plan: JobPlan) -> None:
    hours = [held.hours for held in plan.gpus]
    kinds = [held.spot_gpus for held in plan.gpus], [held.on_demand_gpus for held in plan.gpus]
    names = ("spot", "on demand")
    ax.stackplot(hours, *kinds, labels=names, colors=(PALETTE[0], PALETTE[1]), step="post", alpha=0.8)
    ax.set_xlim(0.0, plan.job.deadline_hours)
    ax.set_ylim(0.0, plan.job.max_gpus * 1.2)
    ax.set_xlabel("hours from the start")
    ax.set_title("GPUs held, on average", loc="left", size=10)
    ax.legend(loc="upper right", ncols=2)
    ax.grid(axis="y")


def _curve(points: Sequence[CurvePoint], now: float, label: str) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        ax.set_xlabel(label)
        if not points:
            ax.text(0.5, 0.5, "nothing to compare", ha="center", transform=ax.transAxes, color=FAINT)
            return
        at = [point.at for point in points]
        low, high = [point.p10_cost_usd for point in points], [point.p90_cost_usd for point in points]
        ax.fill_between(at, low, high, color=PALETTE[0], alpha=0.18, linewidth=0, label="p10 to p90")
        ax.plot(at, [point.mean_cost_usd for point in points], "o-", color=PALETTE[0], label="mean")
        ax.axvline(now, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), label="as the job is")
        ax.set_ylim(bottom=0.0)
        usd_ticks(ax.yaxis, 6)
        ax.set_xticks(at, [f"{one:g}" for one in at])
        ax.legend(loc="lower left", borderaxespad=0.6)
        ax.grid(axis="y")

    return draw
