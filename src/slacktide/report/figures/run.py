"""A live run as one picture: the market, what was held, how far it came, and what it cost."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from slacktide.files import write_whole
from slacktide.report import panels, run_panels, sheet, words
from slacktide.report.run_scene import RunScene
from slacktide.report.run_words import task
from slacktide.report.sheet import Row
from slacktide.report.style import drawable, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = ("holding", "progress", "prices", "spending")


def plot_run(scene: RunScene, path: str | os.PathLike[str]) -> None:
    """Write a run as a PNG picture; raises InputError when the path cannot be written."""
    with drawing():
        picture = sheet.as_png(draw(scene, PANELS, title=True))
    write_whole(path, picture)


def panel_svg(scene: RunScene, panel: str, *, says: str) -> str:
    """Return one of PANELS as SVG to stand inside a page, with words for those who cannot see it."""
    with drawing():
        return sheet.as_svg(draw(scene, (panel,), title=False), panel, says=says)


def draw(scene: RunScene, chosen: Sequence[str], *, title: bool) -> Figure:
    """Draw the chosen panels below each other; call it inside `drawing()`."""
    rows = [_row(scene, panel) for panel in chosen]
    lines = _title(scene) if title else []
    return sheet.stack(rows, lines, start=scene.pool.time(scene.start_slot), end_hours=scene.end_hours)


def _row(scene: RunScene, panel: str) -> Row:
    if panel == "holding":
        return Row(partial(run_panels.holding, scene=scene), 1.5, 0.4)
    if panel == "progress":
        return Row(partial(run_panels.progress, scene=scene), 2.4, 0.42)
    if panel == "prices":
        return Row(partial(panels.price, scene=scene), 1.1, 0.42)
    return Row(partial(run_panels.spending, scene=scene), 1.7, 0.42)


def _title(scene: RunScene) -> list[str]:
    title = f"{words.plain(scene.name, 40)}: {task(scene.job)}"
    when = words.long_time(scene.pool.time(scene.start_slot))
    below = (
        f"run by {words.plain(scene.policy, 60)} in pool {words.plain(scene.pool.name, 40)}, "
        f"on the market of {when}"
    )
    return [*textwrap.wrap(drawable(title), 86), "", *textwrap.wrap(drawable(below), 125)]
