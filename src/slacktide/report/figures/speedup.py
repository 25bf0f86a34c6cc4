"""A picture of measured speedups: points, their concave hull, and the forms fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slacktide.report.figures.drawing import style
from slacktide.report.figures.drawing.style import FAINT, INK, drawable, log_scale, look, save_picture
from slacktide.report.text.tables.speedups import Study, far_under

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 12  # more series than this do not fit one page; the first are shown, and a note says so
LOOKS = {form: look(place) for place, form in enumerate(("amdahl", "power", "linear"))}
_WIDE_SPAN = 24  # from this ratio of the widest to the narrowest width on, the scales are logarithmic


def plot_speedups(source: str, studies: Sequence[Study], path: str | Path) -> None:
    """Draw fitted speedups into a PNG, SVG or PDF file; raises FileError when it cannot be written."""
    save_picture(lambda: _figure(source, studies), path)


def _figure(source: str, studies: Sequence[Study]) -> Figure:
    shown = studies[:MAX_PANELS]
    columns = min(len(shown), 1 if len(shown) == 1 else 2 if len(shown) <= 4 else 3)
    rows = math.ceil(len(shown) / columns)
    size = (8.0, 5.2) if len(shown) == 1 else (4.6 * columns, 0.9 + 3.3 * rows)
    figure = style.titled_figure(_title(source, studies), size)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, study in zip(panels, shown, strict=False):
        _panel(axes, study)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3 if columns == 1 else 6)
    return figure


def _title(source: str, studies: Sequence[Study]) -> str:
    name = drawable(Path(source).name, 50)
    if len(studies) > MAX_PANELS:
        return f"{name}: the first {MAX_PANELS} of {len(studies)} series"
    return f"{name}: {drawable(studies[0].label, 50)}" if len(studies) == 1 and studies[0].group else name


def _panel(axes: Axes, study: Study) -> None:
    fitted = study.fitted
    first, last = fitted.points[0][0], fitted.points[-1][0]
    wide = last / first >= _WIDE_SPAN
    grid = np.geomspace(first, last, 200) if wide else np.linspace(first, last, 200)
    axes.plot(grid, grid, color=FAINT, lw=0.8, ls=":", label="perfect")
    for form, seen in LOOKS.items():
        fit = next((one for one in fitted.fits if one.form == form), None)
        values = [fit(gpus) for gpus in grid.tolist()] if fit else [math.nan] * len(grid)
        axes.plot(grid, values, color=seen.colour, ls=seen.dash, lw=1.3, label=form)
    axes.plot(grid, [fitted.table(gpus) for gpus in grid.tolist()], color=INK, lw=1.3, label="hull")
    axes.plot(*zip(*fitted.points, strict=True), "o", color=INK, ms=4.5, label="measured")
    far = [(point.gpus, point.speedup) for point in far_under(fitted)]
    if far:
        axes.plot(*zip(*far, strict=True), "o", color="white", ms=2.5)
    _scales(axes, study, wide)
    closest = fitted.fits[0]
    best = f"closest: {closest.form}, {100 * closest.error_share:.1f} % off"
    under = f"; {len(far)} of {len(fitted.points)} points under the hull (hollow)" if far else ""
    axes.set_title(f"{drawable(study.label, 44)}\n{best}{under}".lstrip(), fontsize=8.5)


def _scales(axes: Axes, study: Study, wide: bool) -> None:
    widths = [gpus for gpus, _ in study.fitted.points]
    top = max(rate for _, rate in study.fitted.points)
    if wide:
        log_scale(axes, x="GPUs", y="speedup", base=2)
        marks = [
            2.0**power
            for power in range(math.floor(math.log2(widths[0])), math.ceil(math.log2(widths[-1])) + 1)
        ]
        axes.set_xticks(marks[:: math.ceil(len(marks) / 8)])
        axes.set_xticks([], minor=True)
        axes.set_ylim(top=2.0 * top, bottom=0.8 * min(rate for _, rate in study.fitted.points))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_xticks(widths if len(widths) <= 10 else widths[:: math.ceil(len(widths) / 10)])
        axes.set_ylim(0, 1.15 * top)
        axes.set(xlabel="GPUs", ylabel="speedup")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(axis="both")
