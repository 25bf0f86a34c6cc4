"""The panel of progress: the work that every run has done, against the straight line to the deadline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from slacktide.report import words
from slacktide.report.figures import scene as numbers
from slacktide.report.figures.panels.parts import deadline
from slacktide.report.figures.scene import Scene
from slacktide.report.figures.style import FAINT, INK, Look, drawable
from slacktide.results.run import CLAIRVOYANTS, RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LOST, DONE, STOPPED = "X", "o", "s"
MARKS = {LOST: "work lost", DONE: "done", STOPPED: "stopped before it was done"}
LINE = (0, (4, 2))


def progress(ax: Axes, scene: Scene, looks: Mapping[str, Look]) -> None:
    """Draw the work done by every run against the straight line to the deadline."""
    if not words.open_ended(scene.job):
        ax.plot([0.0, scene.job.deadline_hours], [0, 1], color=FAINT, lw=1.1, ls=LINE)
    for run in sorted(scene.runs, key=lambda run: run.policy not in CLAIRVOYANTS):
        _progress_line(ax, scene, run, looks[run.policy])
    ax.set_ylim(0.0, 1.06)
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.grid(axis="y")
    deadline(ax, scene, label=True)


def heading(scene: Scene) -> str:
    """Name the panel."""
    against = "" if words.open_ended(scene.job) else " against the straight line to the deadline"
    return f"Work done{against}"


def keys(scene: Scene, looks: Mapping[str, Look]) -> list[Line2D]:
    """Return what names the lines and the marks of the panel."""
    from matplotlib.lines import Line2D

    named = [
        Line2D([], [], color=look.colour, ls=look.dash, lw=2.2, label=drawable(name, 44))
        for name, look in looks.items()
    ]
    if not words.open_ended(scene.job):
        named.append(Line2D([], [], color=FAINT, ls=LINE, lw=1.1, label="straight line"))
    used = {_end_mark(run) for run in scene.runs}
    used |= {LOST for run in scene.runs if run.lost_gpu_hours > 0}
    marks = [
        Line2D([], [], color=INK, ls="", marker=mark, ms=5, label=label)
        for mark, label in MARKS.items()
        if mark in used
    ]
    return [*named, *marks]


def _end_mark(run: RunResult) -> str:
    """Return the mark of how a run ended; none while it goes on."""
    if run.status is None:
        return ""
    return DONE if math.isfinite(run.finish_hours) else STOPPED


def _progress_line(ax: Axes, scene: Scene, run: RunResult, look: Look) -> None:
    path = numbers.progress(run)
    # The clairvoyant is broad and lies below, so that it shows where a policy does just the same.
    broad, alpha = (3.4, 0.6) if run.policy in CLAIRVOYANTS else (1.6, 1.0)
    ax.plot(path.hours, path.amount, color=look.colour, ls=look.dash, lw=broad, alpha=alpha)
    _losses(ax, run, look.colour)
    # The end may lie on the frame, where half of its mark would be cut off, or out of sight.
    beyond = bool(path.hours[-1] > scene.end_hours)
    end = path.hours[-1:], path.amount[-1:]
    ax.plot(*end, color=look.colour, marker=_end_mark(run), ms=5.5, clip_on=beyond)


def _losses(ax: Axes, run: RunResult, colour: str) -> None:
    """Mark where work was lost, at what was left: a little of it is a fall that nobody would see."""
    hit = [decision for decision in run.losses if decision.lost_gpu_hours > 0]
    left = [decision.done_gpu_hours / run.job.work_gpu_hours for decision in hit]
    ax.plot([each.hours for each in hit], left, color=colour, ls="", marker=LOST, ms=5.5, mew=0.0, zorder=3)
