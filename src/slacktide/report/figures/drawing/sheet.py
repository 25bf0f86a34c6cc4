"""A picture of panels below each other that share a time axis, as a figure or as SVG inside a page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from slacktide.report.figures.drawing.style import FAINT, GREY, INK, NAMELESS, drawing, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 11.0
LEFT_IN, RIGHT_IN = 0.75, 0.35
TICKS_IN = 0.62  # room for the ticks of time: since the start, UTC clock, date
DOTS_PER_IN = 150


STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
LINES = 'stroke-linejoin="round" stroke-linecap="butt"'  # what the style sheet, which is cut out, would say
VARIABLES = {
    INK: "var(--ink, currentColor)",
    FAINT: f"var(--faint, {FAINT})",
    GREY: f"var(--clairvoyant, {GREY})",
}
"""Colours that are left to the page around a drawing, which may be light or dark."""


class Row(NamedTuple):
    """One panel: how to draw it, its height, the room above it, and whether it shares the time axis."""

    draw: Callable[[Axes], None]
    height_in: float
    above_in: float = 0.3
    timed: bool = True
    below_in: float = 0.0


def stack(rows: Sequence[Row], lines: list[str], *, start: datetime, end_hours: float) -> Figure:
    """Draw panels below each other and a title above; call it inside `drawing()`.

    `lines` is the title, an empty line, and the smaller text below it; an empty list for no title.
    """
    from matplotlib.figure import Figure

    drawn = _with_ticks(list(rows))
    height = _title_in(lines) + sum(row.above_in + row.height_in + row.below_in for row in drawn) + 0.05
    figure = Figure(figsize=(WIDTH_IN, height))
    _write_title(figure, lines, height)
    top = height - _title_in(lines)
    for row in drawn:
        top -= row.above_in + row.height_in
        ax = figure.add_axes(_box(top, row.height_in, height))
        row.draw(ax)
        if row.timed:
            time_axis(ax, end_hours, start=start if row.below_in else None)
        top -= row.below_in
    return figure


def as_svg(make: Callable[[], Figure], name: str, *, says: str) -> str:
    """Draw a figure in our style as SVG to embed in a page; `says` describes it to those who cannot see it.

    Ink and greys become CSS variables, so that the page decides between light and dark. The SVG has neither
    styles nor scripts and loads nothing, so that a page with a strict content policy may contain it.
    """
    out = io.StringIO()
    with drawing():
        make().savefig(out, format="svg", transparent=True, metadata=NAMELESS["svg"])
    return _inline(out.getvalue(), name, says)


def _with_ticks(stack: list[Row]) -> list[Row]:
    """Make room for the ticks of time below the last panel that shares them."""
    last = max((place for place, row in enumerate(stack) if row.timed), default=-1)
    return [row._replace(below_in=TICKS_IN) if place == last else row for place, row in enumerate(stack)]


def _box(bottom_in: float, height_in: float, figure_in: float) -> tuple[float, float, float, float]:
    width = 1.0 - (LEFT_IN + RIGHT_IN) / WIDTH_IN
    return LEFT_IN / WIDTH_IN, bottom_in / figure_in, width, height_in / figure_in


def _title_in(lines: list[str]) -> float:
    return (0.25 if lines else 0.0) + sum(_line_in(lines, place) for place in range(len(lines)))


def _line_in(lines: list[str], place: int) -> float:
    """Return the height of a line: large above the empty line, small below it."""
    return 0.08 if not lines[place] else 0.3 if place < lines.index("") else 0.21


def _write_title(figure: Figure, lines: list[str], height: float) -> None:
    """Write the title in bold, and the lines after the empty one smaller below it."""
    top = height - 0.12
    for place, line in enumerate(lines):
        top -= _line_in(lines, place)
        size, weight = (14, "bold") if place < lines.index("") else (9.5, "normal")
        figure.text(LEFT_IN / WIDTH_IN, top / height, line, size=size, weight=weight)


def _inline(svg: str, name: str, says: str) -> str:
    """Reduce an SVG to what a page needs: no prologue, namespaces or styles, and `name` before its ids."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r' xmlns(:xlink)?="[^"]*"', "", body).replace("xlink:href", "href")
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    body = STYLE_SHEET.sub("", body, count=1)
    body = re.sub(r' style="([^"]*)"', _attributes, body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, variable)
    return body.replace("<svg", f'<svg role="img" aria-label="{escape(says)}" {LINES}', 1)


def _attributes(style: re.Match[str]) -> str:
    """Turn an inline style into attributes of its element: a strict content policy forbids inline styles."""
    said = (one.partition(":") for one in style[1].split(";") if ":" in one)
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in said)
