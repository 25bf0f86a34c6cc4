"""The panels of a live run: what was held, how far it came, and what was spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from slacktide.report import run_scene as numbers
from slacktide.report import words
from slacktide.report.panel_parts import deadline, from_zero, headline, legend_above, usd_ticks
from slacktide.report.run_scene import RunScene
from slacktide.report.run_words import gpu_hours, open_ended
from slacktide.report.scene import merged
from slacktide.report.style import CLAIRVOYANT, FAINT, INK, PALETTE
from slacktide.units import format_usd

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

SPOT, ON_DEMAND = PALETTE[5], PALETTE[1]
LOST = PALETTE[6]
LINE = (0, (4, 2))
CROWD = 40
"""With more marks than this they are drawn smaller."""


def holding(ax: Axes, scene: RunScene) -> None:
    """Draw spot and on-demand GPUs held, over what the market offered, with losses and restarts marked."""
    widest = scene.job.max_gpus
    (gpus,) = merged(scene.offered())
    ax.stairs(np.minimum(gpus.values, widest), gpus.edges, fill=True, color=FAINT, alpha=0.22, lw=0)
    spot, on_demand = merged(*numbers.held(scene))
    both = spot.values + on_demand.values
    ax.stairs(spot.values, spot.edges, fill=True, color=SPOT, lw=0)
    ax.stairs(both, spot.edges, baseline=spot.values, fill=True, color=ON_DEMAND, lw=0)
    _marks(ax, scene, float(widest))
    ax.set_ylim(0.0, widest * 1.3)
    ax.set_yticks([0, widest])
    headline(ax, "GPUs held")
    legend_above(ax, _holding_keys(scene))
    deadline(ax, scene)


def _marks(ax: Axes, scene: RunScene, widest: float) -> None:
    """Mark above what was held when the market took GPUs and when workers were started again."""
    taken = [loss.hours for loss in numbers.losses(scene)]
    again = numbers.restarts(scene)
    size = 5.0 if len(taken) + len(again) <= CROWD else 2.6
    ax.plot(again, [widest * 1.1] * len(again), color=INK, ls="", marker="|", ms=size + 2)
    ax.plot(taken, [widest * 1.2] * len(taken), color=LOST, ls="", marker="v", ms=size, mew=0)


def _holding_keys(scene: RunScene) -> list[Artist]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys: list[Artist] = [
        Patch(color=SPOT, lw=0, label="spot"),
        Patch(color=ON_DEMAND, lw=0, label="on demand"),
        Patch(color=FAINT, alpha=0.22, lw=0, label="spot obtainable"),
    ]
    taken, again = len(numbers.losses(scene)), len(numbers.restarts(scene))
    if taken:
        label = f"preempted, {words.count(taken, 'time')}"
        keys.append(Line2D([], [], color=LOST, ls="", marker="v", ms=5, mew=0, label=label))
    if again:
        label = f"restarted, {words.count(again, 'time')}"
        keys.append(Line2D([], [], color=INK, ls="", marker="|", ms=7, label=label))
    return keys


def progress(ax: Axes, scene: RunScene) -> None:
    """Draw the work done against the straight line to the deadline, and the work that was lost."""
    timed = not open_ended(scene.job)
    if timed:
        ax.plot([0.0, scene.job.deadline_hours], [0, 1], color=FAINT, lw=1.1, ls=LINE, label="straight line")
    path = numbers.progress(scene)
    ax.plot(path.hours, path.amount, color=PALETTE[0], lw=1.9, label="work done")
    lost = [loss for loss in numbers.losses(scene) if loss.before > loss.after]
    if lost:
        hours, before, after = zip(*lost, strict=True)
        ax.vlines(hours, after, before, color=LOST, lw=2.6, zorder=3)
        share = sum(before) - sum(after)
        says = f"work lost: {gpu_hours(share * scene.job.work_gpu_hours)}"
        # A mark of its own: a little work lost is a short fall that nobody would see.
        ax.plot(hours, after, color=LOST, ls="", marker="X", ms=6, mew=0, label=says, zorder=4)
    # The end may lie on the frame, where half of its mark would be cut off, or out of sight.
    beyond = bool(path.hours[-1] > scene.end_hours)
    ax.plot(path.hours[-1:], path.amount[-1:], color=PALETTE[0], marker="o", ms=5.5, clip_on=beyond)
    ax.set_ylim(0.0, 1.06)
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.grid(axis="y")
    within = f"; deadline {words.duration(scene.job.deadline_hours)}" if timed else ""
    headline(ax, f"Work: {_outcome(scene)}{within}")
    deadline(ax, scene)
    legend_above(ax)


def _outcome(scene: RunScene) -> str:
    """Say how far the run came, and when."""
    ended = scene.ended
    if ended is not None and math.isfinite(ended.finish_hours):
        return words.finish(scene.job, ended.finish_hours)
    share = words.percent(float(numbers.progress(scene).amount[-1]))
    return f"{share}, goes on" if ended is None else f"{share}, {ended.status.replace('_', ' ')}"


def spending(ax: Axes, scene: RunScene) -> None:
    """Draw what was spent by when, beside on demand alone, the clairvoyant and the greatest cost."""
    spot, both = numbers.spent(scene)
    ax.fill_between(spot.hours, spot.amount, color=SPOT, lw=0, label="spent on spot")
    ax.fill_between(both.hours, spot.amount, both.amount, color=ON_DEMAND, lw=0, label="on demand")
    most = float(both.amount[-1])
    if scene.alone is not None:
        curve = scene.alone
        label = f"on demand alone: {format_usd(float(curve.amount[-1]))}"
        ax.plot(curve.hours, curve.amount, color=INK, lw=1.3, ls=LINE, label=label)
        most = max(most, float(curve.amount[-1]))
    if scene.clairvoyant_usd is not None:
        label = f"clairvoyant: {format_usd(scene.clairvoyant_usd)}"
        ax.axhline(scene.clairvoyant_usd, color=CLAIRVOYANT, lw=1.1, ls=(0, (1, 1.5)), label=label)
        most = max(most, scene.clairvoyant_usd)
    from_zero(ax, most)
    usd_ticks(ax.yaxis, 4)
    ax.grid(axis="y")
    headline(ax, f"Money spent: {format_usd(float(both.amount[-1]))}")
    legend_above(ax)
    deadline(ax, scene)
