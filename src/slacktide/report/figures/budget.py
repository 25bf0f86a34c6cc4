"""A picture of a fleet's budget: what every budget buys, and how wide each class then runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.core.units import HOURS_PER_MONTH, format_duration
from slacktide.report import words
from slacktide.report.figures.drawing import style
from slacktide.report.figures.drawing.style import FAINT, INK, PALETTE, drawable, log_scale, looks
from slacktide.report.text.tables import budget as say
from slacktide.report.text.tables.budget import most_expensive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.budget.width_plan import WidthPlan
    from slacktide.budget.widths import ClassPlan
    from slacktide.report.text.tables.budget import RequestedBudget

MAX_LINES = 12  # classes with a line of their own, those that spend most
SAMPLES = 160  # budgets at which widths are drawn
SIGHT = 6  # the drawing ends at this many times the distance from the least budget to this one
NEARLY_FASTEST = 1.05  # beyond the budget that comes this close to the fastest there is little to see
ROUND_HOURS = (
    1 / 60, 2 / 60, 3 / 60, 5 / 60, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 3 / 4, 1, 1.5, 2, 3, 4, 6, 8, 12, 18, 24,
    36, 48, 72, 120, 168, 336, 672,
)  # fmt: skip
ROUND_TIMES = (
    *(count * scale / 3600 for scale in (0.001, 0.01, 0.1, 1.0) for count in (1, 2, 5)), 10 / 3600, 20 / 3600,
    50 / 3600, *ROUND_HOURS, *(count * 8760.0 for count in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)),
)  # fmt: skip
"""The same with fractions of a second, and years."""
MOST_TICKS = 9


def plot_budget(answer: WidthPlan, requested: RequestedBudget, path: str | Path) -> None:
    """Draw the frontier into a PNG, SVG or PDF file; raises FileError when it cannot be written."""
    style.save_picture(lambda: _figure(answer, requested), path)


def _figure(answer: WidthPlan, requested: RequestedBudget) -> Figure:
    mean = words.response(answer.plan.mean_response_hours)
    name, bought = drawable(Path(requested.source).name, 50), words.gpus(answer.plan.budget_gpus)
    figure = style.titled_figure(f"{name}: {bought} GPUs buy a mean response of {mean}", (11, 8))
    rows = figure.add_gridspec(2, 1, height_ratios=(1.25, 1.0))
    above = figure.add_subplot(rows[0])
    below = figure.add_subplot(rows[1], sharex=above)
    _frontier(above, answer)
    _widths(below, answer)
    end = last_drawn(answer)
    above.set_xlim(max(0.0, answer.least_budget_gpus - 0.06 * (end - answer.least_budget_gpus)), end)
    above.tick_params(axis="x", labelbottom=False)
    below.xaxis.set_major_formatter(lambda gpus, _: f"{gpus:,g}")
    below.set_xlabel("budget: GPUs rented, on average over time")
    if answer.usd_per_gpu_hour is not None:
        _money_axis(above, answer.usd_per_gpu_hour)
    return figure


def last_drawn(answer: WidthPlan) -> float:
    """Return the highest budget that is drawn: above this one, but not far beyond where more buys little."""
    here, least = answer.plan.budget_gpus, answer.least_budget_gpus
    fastest = float(answer.frontier.mean_response_hours[-1])
    near = answer.frontier.cheapest_budget_for(fastest * NEARLY_FASTEST)
    wanted = max(1.5 * least, least + SIGHT * (here - least))
    return max(here + 0.08 * (here - least), min(near, wanted), 1.1 * least)


def _frontier(axes: Axes, answer: WidthPlan) -> None:
    plan, least, end = answer.plan, answer.least_budget_gpus, last_drawn(answer)
    x, y = answer.frontier.budget_gpus, answer.frontier.mean_response_hours
    axes.plot(np.append(x, max(end, x[-1])), np.append(y, y[-1]), color=INK, lw=1.8, label="best possible")
    _one_widths(axes, answer, end)
    axes.axvspan(0.0, least, color=FAINT, alpha=0.12, lw=0)
    axes.axvline(least, color=FAINT, lw=1.0, ls="--")
    axes.annotate(
        f"minimum:  {words.gpus(least)}", (least, 0), (4, 4), ("data", "axes fraction"), "offset points",
        va="bottom", size=8, color=INK,
    )  # fmt: skip
    here = plan.budget_gpus, plan.mean_response_hours
    axes.plot(*here, "o", color=PALETTE[1], ms=9, zorder=5, label="this budget")
    _time_axis(axes, answer, end)
    axes.set_title("What every budget buys")
    axes.legend(loc="upper right", borderaxespad=0.8)
    axes.grid(axis="both")


def _one_widths(axes: Axes, answer: WidthPlan, end: float) -> None:
    """Draw what each single width for all classes would buy, with its number where there is room."""
    corners = [one for one in answer.one_widths.corners() if one.average_gpus <= end]
    if not corners:
        return
    x, y = [one.average_gpus for one in corners], [one.mean_response_hours for one in corners]
    crowded = len(corners) > 60
    marks = "-" if crowded else "x-"
    axes.plot(x, y, marks, color=PALETTE[0], ms=5, lw=0.7, label="one width for all")
    last = -math.inf
    for one, place in zip(corners, x, strict=True):
        if place - last > 0.035 * (end - answer.least_budget_gpus) and not crowded:
            label = say.width(one.widths[0].gpus)
            at = (place, one.mean_response_hours)
            axes.annotate(label, at, (4, 4), "data", "offset points", size=7.5, color=PALETTE[0])
            last = place


def _time_axis(axes: Axes, answer: WidthPlan, end: float) -> None:
    """Give the response a log scale with round times, over the range of what is drawn."""
    shown = answer.frontier.mean_response_hours
    top = max(float(shown[0]), answer.plan.mean_response_hours)
    bottom = answer.frontier.plan_at(end).mean_response_hours
    log_scale(axes, y="mean response")
    axes.set_ylim(bottom / 1.15, top * 1.25)
    ticks = [hours for hours in ROUND_TIMES if bottom / 1.15 <= hours <= top * 1.25]
    ticks = ticks[:: math.ceil(len(ticks) / MOST_TICKS)]
    axes.set_yticks(ticks, [format_duration(hours) for hours in ticks])
    axes.set_yticks([], minor=True)


def _money_axis(axes: Axes, usd_per_gpu_hour: float) -> None:
    month = usd_per_gpu_hour * HOURS_PER_MONTH

    def usd(gpus: Any) -> Any:
        return gpus * month

    def gpus(usd: Any) -> Any:
        return usd / month

    above = axes.secondary_xaxis("top", functions=(usd, gpus))
    above.set_xlabel("USD per month")
    above.xaxis.set_major_formatter(lambda usd, _: f"${usd:,.0f}")


def _widths(axes: Axes, answer: WidthPlan) -> None:
    end = last_drawn(answer)
    budgets = np.linspace(answer.least_budget_gpus, end, SAMPLES).tolist()
    plans = [answer.frontier.plan_at(gpus) for gpus in budgets]
    order = most_expensive(answer.plan)
    drawn = sorted(order[:MAX_LINES])
    look = looks([answer.plan.classes[place].name for place in drawn])
    for place in drawn:
        one = answer.plan.classes[place]
        several = len(answer.plan.job_classes[place].phases) > 1
        seen, name = look[one.name], drawable(one.name, 22) + (" (mean)" if several else "")
        widths = [mean_width(plan.classes[place]) for plan in plans]
        axes.plot(budgets, widths, color=seen.colour, ls=seen.dash, lw=1.6, label=name)
    axes.axvline(answer.plan.budget_gpus, color=PALETTE[1], lw=1.0)
    log_scale(axes, y="GPUs per job", base=2)
    axes.yaxis.set_major_formatter(lambda width, _: f"{width:g}")
    left = len(order) - len(drawn)
    others = f" (the {MAX_LINES} that spend most; {left} are not shown)" if left > 0 else ""
    axes.set_title(f"How wide each class runs{others}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    axes.grid(axis="both")


def mean_width(found: ClassPlan) -> float:
    """Return the GPUs that a job of a class has on average over its life: its width, where it has one."""
    gpu_hours = math.fsum(path.share * path.gpu_hours for path in found.paths)
    return gpu_hours / found.response_hours
