"""The panel of GPUs held: a row for each run, over what was available, with losses and restarts marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.drawing.scene import Scene, held, merged, offered_to
from slacktide.report.figures.drawing.style import FAINT, INK, Look, drawable
from slacktide.report.figures.panels.market import MOVED, ROOM_WITH_POOLS, pool_band
from slacktide.report.figures.panels.parts import aside, cut_at, deadline, headline, legend_above
from slacktide.results.run import CLAIRVOYANT, CLAIRVOYANTS, OVER_POOLS, RunResult

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

SPOT_ALPHA = 0.4  # spot is a run's colour in a light tint, on demand the colour itself
CROWD = 40  # with more marks than this in a row they are drawn smaller
ROOM = 1.42  # height of a row, as a multiple of the job's maximum width; marks stand above the holdings


def holding(ax: Axes, scene: Scene, run: RunResult, look: Look, name: str) -> None:
    """Draw what one run held, over what was available to it, with its bill in the heading."""
    widest = scene.job.max_gpus
    (gpus,) = merged(offered_to(run) if scene.pools else scene.offered())
    ax.stairs(np.minimum(gpus.values, widest), gpus.edges, fill=True, color=FAINT, alpha=0.22, lw=0)
    spot, on_demand = merged(*held(run))
    both = spot.values + on_demand.values
    ax.stairs(spot.values, spot.edges, fill=True, color=look.colour, alpha=SPOT_ALPHA, lw=0)
    ax.stairs(both, spot.edges, baseline=spot.values, fill=True, color=look.colour, lw=0)
    _marks(ax, run)
    if scene.pools:
        pool_band(ax, scene, run, widest * ROOM, widest * ROOM_WITH_POOLS)
    ax.set_ylim(0.0, widest * (ROOM_WITH_POOLS if scene.pools else ROOM))
    ax.set_yticks([0, widest])
    stays_in = run.pool.name if scene.pools and not run.pools else ""
    headline(ax, drawable(words.in_pool(name, stays_in), 60), colour=look.colour, size=9)
    aside(ax, facts(scene, run))
    deadline(ax, scene)


def holdings_key(ax: Axes, scene: Scene) -> None:
    """Explain the rows below: a heading, what tint and colour mean, and the marks."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ax.set_axis_off()
    headline(ax, "GPUs held")
    widest = scene.job.max_gpus
    keys: list[Artist] = [
        Patch(color=INK, alpha=SPOT_ALPHA, lw=0, label="spot"),
        Patch(color=INK, lw=0, label="on demand"),
        Patch(color=FAINT, alpha=0.22, lw=0, label=f"spot available{cut_at(_most(scene), widest)}"),
    ]
    if any(run.losses for run in scene.runs):
        keys.append(Line2D([], [], color=INK, ls="", marker="v", ms=5, mew=0, label="preempted"))
    if any(run.restarts for run in scene.runs):
        keys.append(Line2D([], [], color=INK, ls="", marker="|", ms=6, label="restarted"))
    if any(len(run.stays) > 1 for run in scene.runs if run.pools):
        keys.append(Line2D([], [], color=INK, ls="", marker=MOVED, ms=5.5, mew=0, label="moved"))
    legend_above(ax, keys)


def _most(scene: Scene) -> float:
    offers = [offered_to(run) for run in scene.runs] if scene.pools else [scene.offered()]
    return max(float(gpus.values.max()) for gpus in offers)


def facts(scene: Scene, run: RunResult) -> str:
    """Say what a run paid, when it was done and what it lost."""
    bills = {one.policy: one.bill.cost_usd for one in scene.runs}
    cost, best = bills[run.policy], bills.get(OVER_POOLS if scene.pools else CLAIRVOYANT, 0.0)
    said = [format_usd(cost)]
    if best > 0 and run.policy not in CLAIRVOYANTS and run.finish_hours < np.inf:
        said.append(words.ratio(cost / best))
    said.append(words.outcome(run))
    if run.losses:
        said.append(words.count(len(run.losses), "preemption"))
    if run.pools and len(run.stays) > 1:
        said.append(words.count(len(run.stays) - 1, "move"))
    if run.bill.move_usd > 0:
        said.append(f"{format_usd(run.bill.move_usd)} egress")
    if run.lost_gpu_hours > 0:
        said.append(f"{words.gpu_hours(run.lost_gpu_hours)} GPU-h lost")
    return " · ".join(said)


def _marks(ax: Axes, run: RunResult) -> None:
    """Mark when GPUs were taken and when workers were started again, above the GPUs held."""
    taken = [decision.hours for decision in run.losses]
    size = 4.5 if len(taken) + len(run.restarts) <= CROWD else 2.2
    widest = run.job.max_gpus
    _row(ax, run.restarts, widest * 1.11, "|", size + 1)
    _row(ax, taken, widest * 1.3, "v", size)


def _row(ax: Axes, hours: Sequence[float], height: float, mark: str, size: float) -> None:
    edge = 0.0 if mark == "v" else 1.0
    ax.plot(hours, [height] * len(hours), color=INK, ls="", marker=mark, ms=size, mew=edge, clip_on=True)
