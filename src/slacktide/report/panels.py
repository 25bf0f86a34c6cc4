"""The panels of the market and of what was held in it, each drawn into axes it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slacktide.report import scene as numbers
from slacktide.report import words
from slacktide.report.panel_parts import (
    aside,
    deadline,
    from_zero,
    headline,
    legend_above,
    usd_ticks,
    whole_ticks,
)
from slacktide.report.scene import Backdrop, Scene, merged
from slacktide.report.style import FAINT, INK, Look, drawable
from slacktide.units import format_usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slacktide.results.run import Run

SPOT_ALPHA = 0.4
"""Spot is a policy's colour in a light tint, on demand the colour itself."""


def price(ax: Axes, scene: Backdrop) -> None:
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
        ax.plot([], [], color=FAINT, lw=0.8, label="spot, none obtainable")
    from_zero(ax, float(max(spot.values.max(), listed.values.max())))
    usd_ticks(ax.yaxis, 4)
    headline(ax, "Price per GPU-hour")
    legend_above(ax)
    deadline(ax, scene)


def obtainable(ax: Axes, scene: Backdrop) -> None:
    """Draw how many spot GPUs could be had, and the widest the job may be."""
    (gpus,) = merged(scene.offered())
    ax.stairs(gpus.values, gpus.edges, fill=True, color=FAINT, alpha=0.35, lw=0)
    ax.stairs(gpus.values, gpus.edges, baseline=None, color=FAINT, lw=0.9)
    widest = scene.job.max_gpus
    ax.axhline(widest, color=INK, lw=0.9, ls=(0, (1, 2)), label=f"widest the job may be: {widest}")
    from_zero(ax, max(float(gpus.values.max()), float(widest)))
    whole_ticks(ax)
    headline(ax, "Spot GPUs obtainable")
    legend_above(ax)
    deadline(ax, scene)


def holdings_key(ax: Axes) -> None:
    """Explain the rows below: a heading and what tint and colour mean."""
    from matplotlib.patches import Patch

    ax.set_axis_off()
    headline(ax, "GPUs held")
    keys = [
        Patch(color=INK, alpha=SPOT_ALPHA, lw=0, label="spot"),
        Patch(color=INK, lw=0, label="on demand"),
        Patch(color=FAINT, alpha=0.22, lw=0, label="spot obtainable"),
    ]
    legend_above(ax, keys)


def holding(ax: Axes, scene: Scene, run: Run, look: Look) -> None:
    """Draw what one policy held over what it could have had, with its bill in the heading."""
    slot_hours, widest = scene.pool.slot_hours, scene.job.max_gpus
    (gpus,) = merged(scene.offered())
    ax.stairs(np.minimum(gpus.values, widest), gpus.edges, fill=True, color=FAINT, alpha=0.22, lw=0)
    spot, on_demand = merged(*numbers.held(run, slot_hours))
    both = spot.values + on_demand.values
    ax.stairs(spot.values, spot.edges, fill=True, color=look.colour, alpha=SPOT_ALPHA, lw=0)
    ax.stairs(both, spot.edges, baseline=spot.values, fill=True, color=look.colour, lw=0)
    from_zero(ax, float(widest))
    ax.set_yticks([0, widest])
    headline(ax, drawable(run.policy, 44), colour=look.colour, size=9)
    aside(ax, facts(scene, run))
    deadline(ax, scene)


def facts(scene: Scene, run: Run) -> str:
    """Say what a run paid, when it was done and what it lost."""
    yardstick = next((one.cost_usd for one in scene.runs if one.policy == words.CLAIRVOYANT), 0.0)
    said = [format_usd(run.cost_usd)]
    if yardstick > 0 and run.policy != words.CLAIRVOYANT:
        said.append(words.ratio(run.cost_usd / yardstick))
    said.append(words.finish(scene.job, run.finish_hours))
    if run.preemptions:
        said.append(words.count(run.preemptions, "preemption"))
    if run.lost_gpu_hours > 0:
        said.append(f"{words.gpu_hours(run.lost_gpu_hours)} GPU-h lost")
    return " · ".join(said)
