"""The panels of the market: its prices, and the spot GPUs that could be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slacktide.report.figures.panels.parts import (
    deadline,
    from_zero,
    headline,
    legend_above,
    usd_ticks,
    whole_ticks,
)
from slacktide.report.figures.scene import Scene, merged
from slacktide.report.figures.style import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax.stairs(gpus.values, gpus.edges, fill=True, color=FAINT, alpha=0.35, lw=0)
    ax.stairs(gpus.values, gpus.edges, baseline=None, color=FAINT, lw=0.9)
    widest = scene.job.max_gpus
    ax.axhline(widest, color=INK, lw=0.9, ls=(0, (1, 2)), label=f"widest the job may be: {widest}")
    from_zero(ax, max(float(gpus.values.max()), float(widest)))
    whole_ticks(ax)
    headline(ax, "Spot GPUs available")
    legend_above(ax)
    deadline(ax, scene)
