"""The panels of the market: its prices, drawn where they move, and the spot GPUs that could be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.report import words
from slacktide.report.figures.drawing.scene import Scene, merged
from slacktide.report.figures.drawing.style import FAINT, INK
from slacktide.report.figures.panels.parts import (
    aside,
    cut_at,
    deadline,
    from_zero,
    headline,
    legend_above,
    usd_ticks,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


STEADY_SHARE = 0.05
"""Prices that stay within this share of themselves would be flat lines: they are said, not drawn."""
WIDEST_SEEN = 3
"""How many times the job's greatest width of spot is drawn; what is more of it the job cannot use."""


def is_steady(*prices_usd: Floats) -> bool:
    """Whether prices hardly move, so that a sentence says all of them."""
    return all(float(np.ptp(usd)) <= STEADY_SHARE * float(np.max(usd)) for usd in prices_usd)


def steady_price(ax: Axes, scene: Scene) -> None:
    """Say prices that hardly move, in one line."""
    ax.set_axis_off()
    headline(ax, "Price per GPU-hour")
    spot, listed = (
        words.usd_span(float(np.min(usd)), float(np.max(usd)))
        for usd in (scene.spot_price().values, scene.on_demand_price().values)
    )
    aside(ax, f"spot {spot}, on demand {listed}, throughout")


def price(ax: Axes, scene: Scene) -> None:
    """Draw the spot and on-demand price; spot is faint where none could be had."""
    spot, gpus = merged(scene.spot_price(), scene.offered())
    (listed,) = merged(scene.on_demand_price())
    had = np.where(gpus.values > 0, spot.values, np.nan)
    ax.stairs(spot.values, spot.edges, baseline=None, color=FAINT, lw=0.8)
    ax.stairs(had, spot.edges, baseline=None, color=INK, lw=1.5, label="spot")
    ax.stairs(
        listed.values, listed.edges, baseline=None, color=INK, lw=1.2, ls=(0, (4, 2)), label="on demand"
    )
    if np.isnan(had).any():
        ax.plot([], [], color=FAINT, lw=0.8, label="spot, none available")
    from_zero(ax, float(max(spot.values.max(), listed.values.max())))
    usd_ticks(ax.yaxis, 4)
    headline(ax, "Price per GPU-hour")
    legend_above(ax)
    deadline(ax, scene)


def obtainable(ax: Axes, scene: Scene) -> None:
    """Draw how many spot GPUs could be had, and the widest the job may be."""
    (gpus,) = merged(scene.offered())
    widest = scene.job.max_gpus
    most = min(float(gpus.values.max()), float(WIDEST_SEEN * widest))
    drawn = np.minimum(gpus.values, most)
    ax.stairs(drawn, gpus.edges, fill=True, color=FAINT, alpha=0.35, lw=0)
    ax.stairs(drawn, gpus.edges, baseline=None, color=FAINT, lw=0.9)
    ax.axhline(widest, color=INK, lw=0.9, ls=(0, (1, 2)), label=f"widest the job may be: {widest}")
    from_zero(ax, max(most, float(widest)))
    whole_ticks(ax)
    headline(ax, f"Spot GPUs available{cut_at(float(gpus.values.max()), int(most))}")
    legend_above(ax)
    deadline(ax, scene)
