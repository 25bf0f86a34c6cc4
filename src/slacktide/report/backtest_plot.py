"""A back-test as one picture: the market, what every policy held, its progress, and the bills."""

from __future__ import annotations

import io
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from slacktide.files import write_whole
from slacktide.report import cost_panel, panels, progress_panel, words
from slacktide.report.scene import Scene, scene
from slacktide.report.style import CLAIRVOYANT, FAINT, INK, PAPER, drawable, drawing, looks, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.backtesting.compare import Comparison

WIDTH_IN = 11.0
LEFT_IN, RIGHT_IN = 0.75, 0.35
TICKS_IN = 0.62
"""Room for the ticks of time: since the start, UTC clock, date."""
DOTS_PER_IN = 150

PANELS = ("market", "holdings", "progress", "cost")


class Row(NamedTuple):
    """One panel: how to draw it, its height, the room above it, and whether it shares the time axis."""

    draw: Callable[[Axes], None]
    height_in: float
    above_in: float = 0.3
    timed: bool = True
    below_in: float = 0.0


def plot_backtest(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write a back-test as a PNG picture; raises InputError when the path cannot be written."""
    with drawing():
        figure = draw(scene(comparison), PANELS, title=True)
        figure.set_facecolor(PAPER)
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=DOTS_PER_IN, metadata={"Software": "Slacktide"})
    write_whole(path, out.getvalue())


def panel_svg(comparison: Comparison, panel: str, *, says: str) -> str:
    """Return one of PANELS as SVG to stand inside a page, with words for those who cannot see it.

    Ink and greys become CSS variables, so that the page decides between light and dark.
    """
    with drawing():
        figure = draw(scene(comparison), (panel,), title=False)
        out = io.StringIO()
        empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=empty)
    return _inline(out.getvalue(), panel, says)


def draw(scene: Scene, chosen: Sequence[str], *, title: bool) -> Figure:
    """Draw the chosen panels below each other; call it inside `drawing()`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    stack = _with_ticks([row for panel in chosen for row in _rows(scene, panel)])
    lines = _title(scene) if title else []
    height = _title_in(lines) + sum(row.above_in + row.height_in + row.below_in for row in stack) + 0.05
    figure = Figure(figsize=(WIDTH_IN, height))
    FigureCanvasAgg(figure)
    _write_title(figure, lines, height)
    top = height - _title_in(lines)
    for row in stack:
        top -= row.above_in + row.height_in
        ax = figure.add_axes(_box(top, row.height_in, height))
        row.draw(ax)
        if row.timed:
            start = scene.pool.time(scene.start_slot) if row.below_in else None
            time_axis(ax, scene.end_hours, start=start)
        top -= row.below_in
    return figure


def _with_ticks(stack: list[Row]) -> list[Row]:
    """Make room for the ticks of time below the last panel that shares them."""
    last = max((place for place, row in enumerate(stack) if row.timed), default=-1)
    return [row._replace(below_in=TICKS_IN) if place == last else row for place, row in enumerate(stack)]


def _box(bottom_in: float, height_in: float, figure_in: float) -> tuple[float, float, float, float]:
    """Return the place of a panel as shares of the figure."""
    return (
        LEFT_IN / WIDTH_IN,
        bottom_in / figure_in,
        1.0 - (LEFT_IN + RIGHT_IN) / WIDTH_IN,
        height_in / figure_in,
    )


def _rows(scene: Scene, panel: str) -> list[Row]:
    known = looks(one.policy for one in scene.comparison.summary)
    if panel == "market":
        return [
            Row(partial(panels.price, scene=scene), 1.25),
            Row(partial(panels.obtainable, scene=scene), 0.8, 0.42),
        ]
    if panel == "holdings":
        held = [partial(panels.holding, scene=scene, run=run, look=known[run.policy]) for run in scene.runs]
        return [Row(panels.holdings_key, 0.02, 0.4, timed=False), *(Row(draw, 0.5) for draw in held)]
    if panel == "progress":
        room = 0.06 + 0.185 * progress_panel.key_lines(scene, known)
        key = partial(progress_panel.progress_key, scene=scene, looks=known)
        lines = partial(progress_panel.progress, scene=scene, looks=known)
        return [Row(key, room, 0.45, timed=False), Row(lines, 2.7, 0.2)]
    height = 0.25 + 0.43 * len(scene.comparison.summary)
    bars = partial(cost_panel.cost, comparison=scene.comparison, looks=known)
    key = partial(cost_panel.cost_key, comparison=scene.comparison)
    return [Row(key, 0.02, 0.4, timed=False), Row(bars, height, 0.05, timed=False, below_in=0.3)]


def _title(scene: Scene) -> list[str]:
    job, comparison = scene.job, scene.comparison
    title = f"{words.plain(job.name, 40)}: {words.task(job)}"
    starts = len({(run.pool, run.start_slot) for run in comparison.runs})
    shown = words.long_time(scene.pool.time(scene.start_slot))
    among = f", one of {starts} starts" if starts > 1 else ""
    place = f"{words.plain(comparison.market, 60)}, pool {words.plain(scene.pool.name, 40)}"
    below = f"{place}; start shown: {shown}{among}"
    return [*textwrap.wrap(drawable(title), 86), "", *textwrap.wrap(drawable(below), 125)]


def _title_in(lines: list[str]) -> float:
    """Return the room a title needs."""
    return (0.25 if lines else 0.0) + sum(_line_in(lines, place) for place in range(len(lines)))


def _line_in(lines: list[str], place: int) -> float:
    """Return the height of a line: large above the empty line, small below it."""
    return 0.08 if not lines[place] else 0.3 if place < lines.index("") else 0.21


def _write_title(figure: Figure, lines: list[str], height: float) -> None:
    """Write the title in bold, and what stands after the empty line smaller below it."""
    top = height - 0.12
    for place, line in enumerate(lines):
        top -= _line_in(lines, place)
        size, weight = (14, "bold") if place < lines.index("") else (9.5, "normal")
        figure.text(LEFT_IN / WIDTH_IN, top / height, line, size=size, weight=weight)


def _inline(svg: str, name: str, says: str) -> str:
    """Cut a drawing down to what a page needs: no prologue, no namespaces, ids of its own."""
    from html import escape

    body = svg[svg.index("<svg") :]
    body = re.sub(r' xmlns(:xlink)?="[^"]*"', "", body)
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for colour, variable in ((INK, "ink"), (FAINT, "faint"), (CLAIRVOYANT, "clairvoyant")):
        body = body.replace(colour, f"var(--{variable})")
    return body.replace("<svg", f'<svg role="img" aria-label="{escape(says)}"', 1)
