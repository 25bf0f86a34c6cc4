"""Pictures of the budget experiments: response against bill, ratios, widths, and what machines cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from slacktide.report.figures.drawing.style import FAINT, INK, PALETTE, drawable
from slacktide_papers.budget import rows
from slacktide_papers.budget.cases import IDEAL_NAME
from slacktide_papers.budget.epoch_words import LINES, SETS, middles
from slacktide_papers.budget.rows import FIXED, ONLINE, BudgetReproduction, Contest, Cost, Point, Ratio, Width
from slacktide_papers.budget.words import CLAIMED
from slacktide_papers.reproduction import png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS: dict[str, tuple[str, str]] = {
    FIXED: (INK, "o"),
    ONLINE: (PALETTE[0], "D"),
    rows.OTHER_RATES: (FAINT, "x"),
    rows.ONE_WIDTH: (PALETTE[2], "s"),
    rows.BAND: (PALETTE[1], "^"),
    rows.SLOW_BAND: (PALETTE[4], "v"),
    rows.FIFO: (PALETTE[3], "P"),
    rows.EQUI: (PALETTE[5], "d"),
    rows.SRPT: (PALETTE[6], "*"),
}
"""The colour and the mark by which a policy is known in every picture."""
LABELS = [label for label, _, _ in LINES]
COLUMNS = 3
MOST_MULTIPLE = 5.0  # bills beyond this many times the load are not drawn
MOST_OVER = 8.0
"""Means beyond this many times the fastest are not drawn: they would press the others together."""
COST_MULTIPLE = 2.0
LEGEND_INCHES = 2.4  # room for one name of the legend


def bill_figure(points: Sequence[Point], result: BudgetReproduction) -> bytes:
    """Draw the mean response against the bill, a panel for each stream; the machines that are not ideal."""
    mine = [one for one in points if one.machines != IDEAL_NAME] or points
    panels = list(dict.fromkeys(one.panel for one in mine))

    def draw(figure: Figure) -> None:
        axes = _axes(figure, len(panels))
        for ax, panel in zip(axes, panels, strict=False):
            _bills(ax, [one for one in mine if one.panel == panel], result.widths)
        _labels(
            axes, len(panels), "GPUs on average, as paid for (log scale)", "mean response, hours (log scale)"
        )
        _legend(figure, axes)

    return png(draw, _room(len(panels)))


def _bills(ax: Axes, points: Sequence[Point], widths: Sequence[Width]) -> None:
    bound = sorted((one.average_gpus, one.bound_hours) for one in points)
    ax.plot(*zip(*bound, strict=True), color=FAINT, lw=5, alpha=0.35, label="least possible (ideal machines)")
    formula = sorted({(one.budget_gpus, one.real_hours) for one in widths if one.panel == points[0].panel})
    if formula:
        ax.plot(*zip(*formula, strict=True), color=INK, lw=1, ls="--", label="optimum, real widths (formula)")
    for series in _in_order(one.series for one in points):
        mine = _falling((one.average_gpus, one.mean_hours) for one in points if one.series == series)
        _marks(ax, mine, series, joined=series in (FIXED, ONLINE))
    load = points[0].average_gpus / points[0].load_multiple
    fastest = min(one.mean_hours for one in points)
    ax.set_xlim(0.95 * load, MOST_MULTIPLE * load)
    ax.set_ylim(0.9 * fastest, MOST_OVER * fastest)
    _log(ax, "x", load, MOST_MULTIPLE * load)
    _log(ax, "y", fastest, MOST_OVER * fastest)
    ax.set_title(drawable(points[0].panel, 44))


def _falling(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep points unless a cheaper one is also faster: a line through all might go back and forth."""
    kept: list[tuple[float, float]] = []
    for bill, hours in sorted(points):
        if not kept or hours < kept[-1][1]:
            kept.append((bill, hours))
    return kept


def ratio_figure(ratios: Sequence[Ratio]) -> bytes:
    """Draw each policy's mean over fixed-width's at the same bill, ideal machines above the others."""
    mine = [one for one in ratios if one.reference == FIXED]
    machines = sorted(dict.fromkeys(one.machines for one in mine), key=lambda name: name != IDEAL_NAME)
    panels = list(dict.fromkeys(one.panel for one in mine))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(len(machines), len(panels), squeeze=False, sharex=True, sharey=True)
        for row, name in zip(grid, machines, strict=True):
            for ax, panel in zip(row, panels, strict=True):
                _ratios(ax, [one for one in mine if (one.machines, one.panel) == (name, panel)])
            row[0].set_ylabel(f"mean over fixed-width's (log scale)\n{drawable(name, 44)}")
        for top, low, panel in zip(grid[0], grid[-1], panels, strict=True):
            top.set_title(drawable(panel, 30))
            low.set_xlabel("bill over load (log scale)")
        _legend(figure, grid.ravel())

    return png(draw, (max(7.0, 2.5 * len(panels) + 1), 3.2 * len(machines) + 0.6))


def _ratios(ax: Axes, ratios: Sequence[Ratio]) -> None:
    ax.axhspan(*CLAIMED, color=PALETTE[4], alpha=0.15, lw=0, label="BOA Constrictor's claim")
    ax.axhline(1.0, color=INK, lw=0.8)
    for series in _in_order(one.series for one in ratios):
        mine = sorted((one.load_multiple, one.mean_ratio) for one in ratios if one.series == series)
        _marks(ax, mine, series, joined=True)
    ax.set_xlim(1.0, MOST_MULTIPLE)
    ax.set_ylim(0.8, 4.0)
    _log(ax, "x", 1.0, MOST_MULTIPLE)
    _log(ax, "y", 0.8, 4.0)


def width_figure(widths: Sequence[Width]) -> bytes:
    """Draw the optimal widths of each class along the budget."""

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for place, name in enumerate(dict.fromkeys(one.class_name for one in widths)):
            mine = [one for one in widths if one.class_name == name]
            budgets = [one.budget_gpus for one in mine]
            colour = PALETTE[place % len(PALETTE)]
            ax.plot(budgets, [one.real_gpus for one in mine], color=colour, label=f"{name}, real widths")
            whole = [one.whole_gpus for one in mine]
            ax.plot(budgets, whole, color=colour, ls="none", marker="o", ms=3.5, label=f"{name}, whole GPUs")
        ax.set_yscale("log", base=2)
        _log(ax, "y", 1.0, max(one.real_gpus for one in widths))
        ax.set_xlabel("budget, GPUs on average")
        ax.set_ylabel("GPUs of a job (log scale)")
        ax.set_title(drawable(widths[0].panel, 60))
        ax.grid(True, axis="both")
        ax.legend(loc="lower right", borderaxespad=1.0)

    return png(draw, (7.0, 3.8))


def machine_figure(costs: Sequence[Cost]) -> bytes:
    """Draw what each kind of machine costs each policy at twice the load, against itself and fixed-width."""
    mine = [one for one in costs if one.load_multiple == COST_MULTIPLE]
    names = list(dict.fromkeys(one.machines for one in mine))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for series in _in_order(one.series for one in mine):
            found = {one.machines: one for one in mine if one.series == series}
            places = [names.index(name) for name in found]
            _dots(left, [one.over_ideal for one in found.values()], places, series)
            if series != FIXED:
                _dots(right, [one.over_fixed for one in found.values()], places, series)
        right.axvspan(*CLAIMED, color=PALETTE[4], alpha=0.15, lw=0, label="BOA Constrictor's claim")
        left.set_xlabel("mean over the same policy's on ideal machines")
        right.set_xlabel("mean over fixed-width's on the same machines")
        left.set_yticks(range(len(names)), [drawable(name, 44) for name in names])
        left.invert_yaxis()
        for ax in (left, right):
            ax.axvline(1.0, color=INK, lw=0.8)
            ax.grid(True, axis="both")
        left.set_title(f"{drawable(mine[0].panel, 30)}, bill at twice the load")
        _legend(figure, (left, right))

    return png(draw, (10.0, 0.36 * len(names) + 1.9))


def epoch_figure(contests: Sequence[Contest]) -> bytes:
    """Draw the parts of the claim: the ratio of each line, its median and its range over streams."""

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for number, which in enumerate(SETS):
            for label, one in middles(contests, which).items():
                place = LABELS.index(label) + 0.24 * (number - 0.5)
                colour, mark = PALETTE[number], "os"[number]
                ax.plot([one.least, one.greatest], [place, place], color=colour, lw=2, alpha=0.5)
                ax.plot(one.median, place, color=colour, marker=mark, ms=6, ls="none", label=which)
        ax.axvspan(*CLAIMED, color=PALETTE[4], alpha=0.15, lw=0, label="BOA Constrictor's claim")
        ax.axvline(1.0, color=INK, lw=0.8)
        ax.set_yticks(range(len(LABELS)), LABELS)
        ax.invert_yaxis()
        ax.set_xlabel("mean completion time over fixed-width with phases, at equal bills")
        ax.set_title("restarts and speedups by phase are assumed, not measured")
        ax.grid(True, axis="x")
        _legend(figure, (ax,))

    return png(draw, (9.0, 0.36 * len(LABELS) + 1.5))


def _dots(ax: Axes, values: list[float], places: list[int], series: str) -> None:
    colour, mark = LOOKS.get(series, (FAINT, "."))
    ax.plot(values, places, color=colour, marker=mark, ms=6, ls="none", label=series)


def _marks(ax: Axes, points: Sequence[tuple[float, float]], series: str, *, joined: bool) -> None:
    colour, mark = LOOKS.get(series, (FAINT, "."))
    style: dict[str, Any] = {"color": colour, "marker": mark, "ms": 4, "lw": 1}
    ax.plot(*zip(*points, strict=True), ls="-" if joined else ":", label=series, **style)


def _in_order(series: Iterable[str]) -> list[str]:
    """Return each name once, those in LOOKS first, in its order."""
    found = dict.fromkeys(series)
    return [*(name for name in LOOKS if name in found), *(name for name in found if name not in LOOKS)]


def _axes(figure: Figure, count: int) -> list[Axes]:
    columns = min(COLUMNS, count) if count != 4 else 2
    axes = list(figure.subplots(math.ceil(count / columns), columns, squeeze=False).ravel())
    for spare in axes[count:]:
        spare.set_visible(False)
    return axes


def _room(count: int) -> tuple[float, float]:
    columns = min(COLUMNS, count) if count != 4 else 2
    return 1.0 + 3.7 * columns, 0.9 + 3.0 * math.ceil(count / columns)


def _labels(axes: Sequence[Axes], count: int, x_label: str, y_label: str) -> None:
    columns = min(COLUMNS, count) if count != 4 else 2
    for place, ax in enumerate(axes[:count]):
        if place % columns == 0:
            ax.set_ylabel(y_label)
        if place + columns >= count:
            ax.set_xlabel(x_label)


def _log(ax: Axes, which: str, low: float, high: float) -> None:
    """Make an axis logarithmic, with plain round numbers as ticks."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axis = ax.xaxis if which == "x" else ax.yaxis
    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    ticks = [base * 10**power for power in range(-4, 6) for base in (1, 1.5, 2, 3, 5, 7)]
    axis.set_major_locator(_fixed([tick for tick in ticks if 0.85 * low <= tick <= 1.05 * high]))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    ax.grid(True, axis="both")


def _fixed(ticks: list[float]) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator(ticks)


def _legend(figure: Figure, axes: Iterable[Axes]) -> None:
    shown: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    columns = max(2, min(len(shown), int(figure.get_figwidth() / LEGEND_INCHES)))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns)
