"""Runs from one start as one picture: the market, GPUs held, work done, and money spent."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from slacktide.report import words
from slacktide.report.figures.drawing import sheet
from slacktide.report.figures.drawing.scene import Scene, scene, whereabouts
from slacktide.report.figures.drawing.sheet import Row
from slacktide.report.figures.drawing.style import Look, drawable, looks, save_picture, short_names
from slacktide.report.figures.panels import holdings, market, progress
from slacktide.report.figures.panels.parts import key_below, key_in

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

    from slacktide.results.run import RunResult

PANELS = {
    "market": "Prices per GPU-hour and spot GPUs available over time",
    "holdings": "Spot and on-demand GPUs held over time, with preemptions and restarts",
    "progress": "Work done over time, and how far ahead of a straight line to the deadline or behind it",
    "money": "Money spent over time",
}
"""The panels, and what each shows in words for those who cannot see it."""


def plot_run(runs: Sequence[RunResult], path: str | os.PathLike[str]) -> None:
    """Draw a run and those it is compared with into a file; raises InputError when it cannot be drawn."""
    shown, run = scene(runs), runs[0]
    title = f"{words.plain(run.name, 40)}: {words.task(run.job)}"
    below = (
        f"run by {words.plain(run.policy, 60)} in {whereabouts(run)}, "
        f"on the market of {words.long_time(shown.start)}"
    )

    def draw() -> Figure:
        rows = [row for panel in PANELS for row in panel_rows(shown, panel)]
        return stacked(shown, rows, titled(title, below))

    save_picture(draw, path, sheet.DOTS_PER_IN)


def panel_svg(runs: Sequence[RunResult], panel: str) -> str:
    """Return one of PANELS as SVG to embed in a page."""
    shown = scene(runs)
    return sheet.as_svg(lambda: stacked(shown, panel_rows(shown, panel), []), panel, says=PANELS[panel])


def stacked(scene: Scene, rows: Sequence[Row], lines: list[str]) -> Figure:
    """Draw rows below each other on the scene's axis of time; call it inside `drawing()`."""
    return sheet.stack(rows, lines, start=scene.start, end_hours=scene.end_hours)


def panel_rows(scene: Scene, panel: str) -> list[Row]:
    """Return the rows of one of PANELS."""
    known = looks(run.policy for run in scene.runs)
    match panel:
        case "market" if scene.pools:
            return [
                _key(market.pools_heading(scene), market.pool_keys(scene)),
                Row(partial(market.strips, scene=scene), market.strips_in(scene), 0.1),
            ]
        case "market":
            return [_price(scene), Row(partial(market.obtainable, scene=scene), 0.7, 0.42)]
        case "holdings":
            key = partial(holdings.holdings_key, scene=scene)
            return [Row(key, 0.02, 0.4, timed=False), *_holdings(scene, known)]
        case "progress":
            return [
                _key(progress.heading(scene), progress.keys(scene, known)),
                # Above the panel there is the deadline's label.
                Row(partial(progress.progress, scene=scene, looks=known), 1.1, 0.2),
                *_ahead(scene, known),
            ]
    lines = partial(progress.money, scene=scene, looks=known)
    return [_key("Money spent", progress.money_keys(scene, known)), Row(lines, 1.4, 0.12)]


def titled(title: str, below: str) -> list[str]:
    """Wrap a title and the smaller text below it into lines, with an empty one between them."""
    return [*textwrap.wrap(drawable(title), 86), "", *textwrap.wrap(drawable(below), 125)]


def _key(heading: str, keys: Sequence[Artist]) -> Row:
    return Row(partial(key_below, heading=heading, keys=keys), key_in(keys), 0.45, timed=False)


def _price(scene: Scene) -> Row:
    """Return the row of prices: a panel where they move, a line of text where they do not."""
    if market.is_steady(scene.spot_price().values, scene.on_demand_price().values):
        return Row(partial(market.steady_price, scene=scene), 0.02, timed=False)
    return Row(partial(market.price, scene=scene), 0.9)


def _ahead(scene: Scene, known: dict[str, Look]) -> list[Row]:
    """Return the panel of the distance to the straight line, where there is a line."""
    if words.open_ended(scene.job):
        return []
    return [Row(partial(progress.ahead, scene=scene, looks=known), 1.5, 0.42)]


def _holdings(scene: Scene, known: dict[str, Look]) -> list[Row]:
    names = short_names(known)
    draw = [
        partial(holdings.holding, scene=scene, run=run, look=known[run.policy], name=names[run.policy])
        for run in scene.runs
    ]
    return [Row(one, 0.78 if scene.pools else 0.6) for one in draw]
