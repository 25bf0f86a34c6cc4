"""A picture of forecasters compared: how much better than persistence, by how far ahead."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from slacktide.core.units import format_duration
from slacktide.market.forecast.score import Score, Scores
from slacktide.report.figures.drawing import style
from slacktide.report.figures.drawing.style import GREY, INK, Look, drawable, look, percent_ticks, tick_hours
from slacktide.report.text.tables.forecasts import skills, verdicts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOWEST = -0.6  # worse than this is drawn at the edge: one hopeless forecaster must not flatten the others


def plot_forecasts(source: str, scores: Scores, path: str | Path) -> None:
    """Draw skill by horizon into a PNG, SVG or PDF file; raises FileError when it cannot be written."""
    style.save_picture(lambda: _figure(source, scores), path)


def _figure(source: str, scores: Scores) -> Figure:
    name = f"{drawable(Path(source).name, 50)}: {drawable(scores.pool, 40)}"
    figure = style.titled_figure(f"{name}, {scores.slots:,} forecasts scored", (11, 4.6))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, what, sentence in zip((left, right), ("availability", "price"), verdicts(scores), strict=True):
        _panel(axes, scores, what)
        axes.set_title(f"{what.capitalize()}\n{textwrap.fill(drawable(sentence), 78)}")
    left.set_ylabel("error avoided, against persistence")
    percent_ticks(left.yaxis, 8, signed=True)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
    return figure


def _panel(axes: Axes, scores: Scores, what: str) -> None:
    end = scores.horizon * scores.slot_hours
    axes.axhline(0.0, color=INK, lw=1.6, label="persistence")
    for number, score in enumerate(scores.scores[1:]):
        _line(axes, scores, score, what, look(number))
    ticks = [hours for hours in tick_hours(end, 8) if hours > 0]
    axes.set_xticks(ticks, [format_duration(hours) for hours in ticks])
    drawn = [skill for score in scores.scores for skill in skills(score, what) if skill is not None]
    if not drawn:
        axes.text(0.5, 0.42, "nothing to forecast", transform=axes.transAxes, ha="center", color=GREY)
    axes.set(xlim=(0, end * 1.02), xlabel="how far ahead")
    axes.set_ylim(max(LOWEST, min(-0.1, *_bounds(scores))), min(1.02, max(0.1, *_bounds(scores))))
    axes.grid(axis="both")


def _bounds(scores: Scores) -> tuple[float, float]:
    """Return the lowest and highest skill of both panels, with some room."""
    every = (skill for score in scores.scores for skill in (*score.gpus_skill, *score.price_skill))
    found = [skill for skill in every if skill is not None]
    return (min(found, default=0.0) - 0.02, max(found, default=0.0) + 0.02)


def _line(axes: Axes, scores: Scores, score: Score, what: str, seen: Look) -> None:
    known = {slot: skill for slot, skill in enumerate(skills(score, what), start=1) if skill is not None}
    hours, shown = (
        [slot * scores.slot_hours for slot in known],
        [max(skill, LOWEST) for skill in known.values()],
    )
    name, colour, dash = drawable(score.forecaster, 40), seen.colour, seen.dash
    if score.knows_the_future:
        name, colour, dash = f"{name} (knows the future)", GREY, ":"
    axes.plot(hours, shown, color=colour, ls=dash, marker=seen.marker, ms=3.5, lw=1.5, label=name)
