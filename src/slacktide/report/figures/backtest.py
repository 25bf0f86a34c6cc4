"""A back-test as one picture: the market, what every policy held, its progress, and the bills."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from slacktide.files import write_whole
from slacktide.report import cost_panel, panels, progress_panel, sheet, words
from slacktide.report.scene import Scene, scene
from slacktide.report.sheet import Row
from slacktide.report.style import drawable, drawing, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slacktide.results.comparison import Comparison

PANELS = ("market", "holdings", "progress", "cost")


def plot_backtest(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write a back-test as a PNG picture; raises InputError when the path cannot be written."""
    with drawing():
        picture = sheet.as_png(draw(scene(comparison), PANELS, title=True))
    write_whole(path, picture)


def panel_svg(comparison: Comparison, panel: str, *, says: str) -> str:
    """Return one of PANELS as SVG to stand inside a page, with words for those who cannot see it."""
    with drawing():
        return sheet.as_svg(draw(scene(comparison), (panel,), title=False), panel, says=says)


def draw(scene: Scene, chosen: Sequence[str], *, title: bool) -> Figure:
    """Draw the chosen panels below each other; call it inside `drawing()`."""
    rows = [row for panel in chosen for row in _rows(scene, panel)]
    lines = _title(scene) if title else []
    return sheet.stack(rows, lines, start=scene.pool.time(scene.start_slot), end_hours=scene.end_hours)


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
