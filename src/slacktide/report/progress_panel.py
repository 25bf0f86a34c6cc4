"""The panel of progress: the work every policy has done, against the straight line to the deadline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slacktide.report import scene as numbers
from slacktide.report import words
from slacktide.report.panel_parts import deadline, headline
from slacktide.report.scene import Scene
from slacktide.report.style import FAINT, INK, Look, drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from slacktide.results.run import Run

PREEMPTED, LOST, DONE, SPENT = "v", "X", "o", "s"
MARKS = {
    PREEMPTED: "preempted",
    LOST: "preempted, work lost",
    DONE: "done",
    SPENT: "greatest cost reached",
}
CROWD = 40
"""With more preemptions than this the marks are drawn smaller."""


def progress(ax: Axes, scene: Scene, looks: dict[str, Look]) -> None:
    """Draw the work done by every policy against the straight line to the deadline."""
    ax.plot([0.0, scene.job.deadline_hours], [0, 1], color=FAINT, lw=1.1, ls=(0, (4, 2)))
    for run in sorted(scene.runs, key=lambda run: run.policy != words.CLAIRVOYANT):
        _progress_line(ax, scene, run, looks[run.policy])
    ax.set_ylim(0.0, 1.06)
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.grid(axis="y")
    deadline(ax, scene, label=True)


def progress_key(ax: Axes, scene: Scene, looks: dict[str, Look]) -> None:
    """Name the lines and marks of the progress panel."""
    ax.set_axis_off()
    headline(ax, "Work done against the straight line to the deadline")
    keys = _keys(scene, looks)
    ax.legend(handles=keys, loc="upper left", bbox_to_anchor=(0.0, 0.95), ncols=_columns(keys))


def key_lines(scene: Scene, looks: dict[str, Look]) -> int:
    """Return how many lines the key of the progress panel has."""
    keys = _keys(scene, looks)
    return math.ceil(len(keys) / _columns(keys))


def _keys(scene: Scene, looks: dict[str, Look]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=look.colour, ls=look.dash, lw=2.2, label=drawable(name, 44))
        for name, look in looks.items()
    ]
    keys.append(Line2D([], [], color=FAINT, ls=(0, (4, 2)), lw=1.1, label="straight line"))
    used = _marks_used(scene)
    keys += [
        Line2D([], [], color=INK, ls="", marker=mark, ms=5, label=label)
        for mark, label in MARKS.items()
        if mark in used
    ]
    return keys


def _columns(keys: Sequence[Line2D]) -> int:
    """Return how many columns of a key fit side by side."""
    return max(1, min(5, 130 // (max(len(str(key.get_label())) for key in keys) + 7)))


def _marks_used(scene: Scene) -> set[str]:
    used = {_end_mark(run) for run in scene.runs}
    hit = [record for run in scene.runs for record in run.slots if record.lost_gpus]
    return used | {LOST if record.lost_gpu_hours > 0 else PREEMPTED for record in hit}


def _end_mark(run: Run) -> str:
    return DONE if math.isfinite(run.finish_hours) else SPENT


def _progress_line(ax: Axes, scene: Scene, run: Run, look: Look) -> None:
    slot_hours = scene.pool.slot_hours
    path = numbers.progress(run, scene.job, slot_hours)
    # The clairvoyant is broad and lies below, so that it shows where a policy does just the same.
    broad, alpha = (3.4, 0.6) if run.policy == words.CLAIRVOYANT else (1.6, 1.0)
    ax.plot(path.hours, path.share, color=look.colour, ls=look.dash, lw=broad, alpha=alpha)
    hits, worse = numbers.preemptions(run, scene.job, slot_hours)
    size = 5.0 if len(hits.hours) <= CROWD else 2.2
    for mark, chosen in ((PREEMPTED, ~worse), (LOST, worse)):
        at = hits.hours[chosen], hits.share[chosen]
        ax.plot(*at, color=look.colour, ls="", marker=mark, ms=size, mew=0.0)
    # The end may lie on the frame, where half of its mark would be cut off, or out of sight.
    beyond = bool(path.hours[-1] > scene.end_hours)
    ax.plot(
        path.hours[-1:], path.share[-1:], color=look.colour, marker=_end_mark(run), ms=5.5, clip_on=beyond
    )
