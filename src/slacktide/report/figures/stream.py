"""A picture of allocators compared: spend against mean response, response times, and waste."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slacktide.budget.frontier import frontier
from slacktide.budget.stream import realised_classes
from slacktide.core.errors import InputError
from slacktide.report import words
from slacktide.report.figures.budget import ROUND_HOURS
from slacktide.report.figures.drawing import style
from slacktide.report.figures.drawing.style import FAINT, INK, Look, log_scale, looks, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from slacktide.results.stream import StreamComparison

WASTES = (("idle", "idle_gpu_hours", FAINT), ("restart", "restart_gpu_hours", "#d55e00"),
          ("fragments", "fragmentation_gpu_hours", "#e69f00"))  # fmt: skip
WIDE = 4.0  # mean responses that differ by more than this factor are drawn on a log scale
DECADE_HOURS = (1 / 3600, 10 / 3600, 1 / 60, 1 / 6, 1.0, 10.0, 96.0, 960.0, 9600.0)
"""Round times about a factor of ten apart."""
CURVE_POINTS = 400  # response times at which each policy's curve is drawn
SIZE_PT = 8.0  # font size of the names next to points
WIDTH_PT, HEIGHT_PT = 0.6 * SIZE_PT, 1.3 * SIZE_PT  # about as much room as a character takes
GAP_PT = 7.0  # from a point's middle to its name


def plot_streams(found: StreamComparison, path: str | Path) -> None:
    """Draw a comparison into a PNG, SVG or PDF file; raises FileError when it cannot be written."""
    if not found.rows:
        raise InputError("at least one policy must have run to be drawn, got none")
    style.save_picture(lambda: _figure(found), path)


def _figure(found: StreamComparison) -> Figure:
    title = (
        f"{words.count(len(found.stream), 'job')} over {words.duration(found.stream.hours)} "
        f"on {words.gpus(found.fleet.budget_gpus)} GPUs on average"
    )
    figure = style.titled_figure(title, (11, 8.5))
    rows = figure.add_gridspec(2, 2, height_ratios=(1.5, 1.0))
    known = looks(row.policy for row in found.rows)
    points = figure.add_subplot(rows[0, :])
    _points(points, found, known)
    _curves(figure.add_subplot(rows[1, 0]), found, known)
    _wastes(figure.add_subplot(rows[1, 1]), found)
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    _name(points, found, known)
    return figure


def _points(axes: Axes, found: StreamComparison, known: dict[str, Look]) -> None:
    """Draw mean response against spend: the policies, and the frontier of the best fixed widths."""
    spent = [row.run.average_gpus for row in found.rows]
    means = [row.run.mean_response_hours for row in found.rows]
    low, high = min(*spent, found.fleet.budget_gpus), max(*spent, found.fleet.budget_gpus)
    room = max(0.12 * (high - low), 0.08 * high)
    curve = frontier([one for one in realised_classes(found.fleet.classes, found.stream) if one is not None])
    x = np.append(curve.budget_gpus, max(high + room, curve.budget_gpus[-1]))
    y = np.append(curve.mean_response_hours, curve.mean_response_hours[-1])
    restarts = any(one.restart_hours for one in found.fleet.classes)
    line = "the best fixed widths" if restarts else "no policy can be below"
    axes.plot(x, y, color=INK, lw=1.6, label=f"{line}, on these jobs")
    axes.axvline(found.fleet.budget_gpus, color=FAINT, lw=0.9, ls=":", label="the budget")
    for row in found.rows:
        look, spot = known[row.policy], (row.run.average_gpus, row.run.mean_response_hours)
        axes.plot(*spot, look.marker, color=look.colour, ms=8, zorder=3)
    best = float(np.interp(high + room, x, y))
    bottom, top = 0.8 * best, 1.25 * max(means)
    axes.set_ylabel("mean response")
    if max(means) > WIDE * best:
        log_scale(axes, y="mean response")
        axes.set_yticks([hours for hours in ROUND_HOURS if bottom <= hours <= top])
    axes.set(xlim=(low - room, high + room), ylim=(bottom, top))
    axes.set_xlabel("GPUs rented, on average over time")
    style.duration_ticks(axes.yaxis)
    axes.set_title("What is spent, and what it buys")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.005), ncols=2)
    axes.grid()


def _name(axes: Axes, found: StreamComparison, known: dict[str, Look]) -> None:
    """Write each policy's name next to its point; called after the layout has fixed the points."""
    names = short_names(known)
    spots = {names[row.policy]: (row.run.average_gpus, row.run.mean_response_hours) for row in found.rows}
    name_points(axes, spots, {names[policy]: look.colour for policy, look in known.items()})


def _curves(axes: Axes, found: StreamComparison, known: dict[str, Look]) -> None:
    """Draw the share of jobs that took longer than a time."""
    names = short_names(known, 24)
    for row in found.rows:
        ranked = np.sort(row.run.response_hours)
        places = np.unique(np.geomspace(1, len(ranked), CURVE_POINTS).astype(int)) - 1
        places = len(ranked) - 1 - places[::-1]
        look, left, name = known[row.policy], 1 - places / len(ranked), names[row.policy]
        axes.plot(ranked[places], left, color=look.colour, ls=look.dash, lw=1.4, label=name)
    log_scale(axes, x="response", y="share of jobs")
    axes.set_ylim(1e-3, 1.05)
    low, high = axes.get_xlim()
    ticks = [hours for hours in DECADE_HOURS if low <= hours <= high]
    axes.set_xticks(ticks)
    style.duration_ticks(axes.xaxis)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")
    axes.set_title("Jobs that take longer than …")
    axes.legend(loc="lower left", borderaxespad=0.8, handlelength=2.6)
    axes.grid()


def _wastes(axes: Axes, found: StreamComparison) -> None:
    names = list(short_names([row.policy for row in found.rows], 24).values())
    places, left = np.arange(len(names)), np.zeros(len(names))
    for label, part, colour in WASTES:
        shares = np.array([row.run.bill.share(getattr(row.run.bill, part)) for row in found.rows])
        if not shares.any():
            continue
        axes.barh(places, shares, left=left, color=colour, label=label, height=0.6)
        left += shares
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlim(0, max(0.05, 1.1 * float(left.max())))
    style.percent_ticks(axes.xaxis)
    axes.set_title("Share of the bill that did no work")
    if left.any():
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.005), ncols=3)
    axes.grid(axis="x")


def name_points(ax: Axes, points: Mapping[str, tuple[float, float]], colours: Mapping[str, str]) -> None:
    """Write each name to the right of its point, or left, above or below it where it would hide another.

    Call it after the axes' limits are set, because these decide where the names go.
    """
    frame = ax.get_window_extent()
    per_pt = ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    taken = [_around(ax, at, per_pt) for at in points.values()]
    for name, at in points.items():
        x, y = ax.transData.transform(at) / per_pt
        choices = [_box(x, y, len(name) * WIDTH_PT, side) for side in ("left", "right", "below", "above")]
        inside = [box for box in choices if box.x1 * per_pt < frame.x1 and box.x0 * per_pt > frame.x0]
        free = [box for box in inside if not any(box.overlaps(other) for other in taken)]
        box = (free or inside or choices)[0]
        taken.append(box)
        offset = box.x0 - x, (box.y0 + box.y1) / 2 - y
        ax.annotate(
            name, at, offset, textcoords="offset points", va="center", size=SIZE_PT, color=colours[name]
        )


def _around(ax: Axes, at: tuple[float, float], per_pt: float) -> Bbox:
    from matplotlib.transforms import Bbox

    x, y = ax.transData.transform(at) / per_pt
    return Bbox.from_bounds(x - GAP_PT / 2, y - GAP_PT / 2, GAP_PT, GAP_PT)


def _box(x: float, y: float, width: float, side: str) -> Bbox:
    """Return the box of a name whose point lies on this side of it."""
    from matplotlib.transforms import Bbox

    left, bottom = {
        "left": (x + GAP_PT, y - HEIGHT_PT / 2),
        "right": (x - GAP_PT - width, y - HEIGHT_PT / 2),
        "below": (x - width / 2, y + GAP_PT),
        "above": (x - width / 2, y - GAP_PT - HEIGHT_PT),
    }[side]
    return Bbox.from_bounds(left, bottom, width, HEIGHT_PT)
