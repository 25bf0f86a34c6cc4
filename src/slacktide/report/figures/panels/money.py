"""The panel of money: what every run had spent by when, and the most that the job may cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.units import format_usd
from slacktide.report.figures.drawing.names import short_names
from slacktide.report.figures.drawing.scene import Scene, spent
from slacktide.report.figures.drawing.style import INK, Look
from slacktide.report.figures.panels.parts import deadline, from_zero, line_key, usd_ticks
from slacktide.results.run import CLAIRVOYANTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def money(ax: Axes, scene: Scene, looks: Mapping[str, Look]) -> None:
    """Draw what every run had spent by when."""
    seen = list[float]()
    for run in scene.runs:
        look, curve = looks[run.policy], spent(run)
        broad, alpha = (3.4, 0.6) if run.policy in CLAIRVOYANTS else (1.6, 1.0)
        ax.plot(curve.hours, curve.amount, color=look.colour, ls=look.dash, lw=broad, alpha=alpha)
        seen.append(float(np.interp(scene.end_hours, curve.hours, curve.amount)))
    limit = scene.job.max_cost_usd
    if limit is not None and limit < 2 * max(seen):
        ax.axhline(limit, color=INK, lw=0.9, ls=(0, (1, 2)))
        text = f"at most {format_usd(limit)}"
        ax.annotate(text, (1, limit), (0, 3), ax.get_yaxis_transform(), "offset points", ha="right", size=8)
        seen.append(limit)
    from_zero(ax, max(seen))
    usd_ticks(ax.yaxis, 4)
    ax.grid(axis="y")
    deadline(ax, scene)


def keys(scene: Scene, looks: Mapping[str, Look]) -> list[Line2D]:
    """Return what names the lines, each with the run's whole bill."""
    names = short_names(looks)
    return [
        line_key(looks[run.policy], f"{names[run.policy]}: {format_usd(run.bill.cost_usd)}")
        for run in scene.runs
    ]
