"""The panels of runs over time: work done, how far that is ahead of the straight line, and money spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.types import Job
from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.drawing import scene as numbers
from slacktide.report.figures.drawing.scene import Curve, Scene
from slacktide.report.figures.drawing.style import FAINT, INK, Look, percent_ticks, short_names
from slacktide.report.figures.panels.parts import deadline, from_zero, headline, line_key, usd_ticks
from slacktide.results.run import CLAIRVOYANTS, RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LOST, DONE, STOPPED = "X", "o", "s"
MARKS = {LOST: "work lost", DONE: "done", STOPPED: "stopped before it was done"}
LINE = (0, (4, 2))


def progress(ax: Axes, scene: Scene, looks: Mapping[str, Look]) -> None:
    """Draw the share of the work done by every run, over the straight line to the deadline."""
    if not words.open_ended(scene.job):
        ax.plot([0.0, scene.job.deadline_hours], [0, 1], color=FAINT, lw=1.1, ls=LINE)
    _lines(ax, scene, looks, numbers.share)
    ax.set_ylim(0.0, 1.06)
    percent_ticks(ax.yaxis, 5)
    ax.grid(axis="y")
    deadline(ax, scene, label=True)


def ahead(ax: Axes, scene: Scene, looks: Mapping[str, Look]) -> None:
    """Draw by how many GPU-hours of work every run is ahead of the straight line, or behind it.

    Runs whose lines of work done cover each other can be told apart here.
    """
    from matplotlib.ticker import MaxNLocator

    headline(ax, "Ahead of the straight line (+) or behind it (−), in GPU-hours of work")
    ax.axhline(0.0, color=FAINT, lw=1.1, ls=LINE)
    _lines(ax, scene, looks, numbers.ahead)
    ax.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(lambda amount, _: f"{amount:+,g}" if amount else "on it")
    ax.margins(y=0.08)
    ax.grid(axis="y")
    deadline(ax, scene)


def heading(scene: Scene) -> str:
    """Return the heading of the first panel."""
    against = "" if words.open_ended(scene.job) else " and the straight line to the deadline"
    return f"Work done{against}"


def keys(scene: Scene, looks: Mapping[str, Look]) -> list[Line2D]:
    """Return the legend: each line with how its run ended, and the marks that are used."""
    from matplotlib.lines import Line2D

    names = short_names(looks)
    named = [line_key(looks[run.policy], f"{names[run.policy]}: {words.outcome(run)}") for run in scene.runs]
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
    """Return the mark of how a run ended; empty while it runs."""
    if run.status is None:
        return ""
    return DONE if math.isfinite(run.finish_hours) else STOPPED


def _lines(ax: Axes, scene: Scene, looks: Mapping[str, Look], shown: Callable[[Curve, Job], Curve]) -> None:
    """Draw the work of every run as `shown` converts it, the clairvoyants' first and so below the others."""
    for run in sorted(scene.runs, key=lambda run: run.policy not in CLAIRVOYANTS):
        look, path = looks[run.policy], shown(numbers.done(run), run.job)
        _line(ax, run, look, path)
        lost = shown(numbers.left_by_losses(run), run.job)
        ax.plot(lost.hours, lost.amount, color=look.colour, ls="", marker=LOST, ms=5.5, mew=0.0, zorder=3)
        # Clipping would cut a mark on the frame in half; it is needed for an end beyond the frame.
        beyond = bool(path.hours[-1] > scene.end_hours)
        end = path.hours[-1:], path.amount[-1:]
        ax.plot(*end, color=look.colour, marker=_end_mark(run), ms=5.5, clip_on=beyond)


def _line(ax: Axes, run: RunResult, look: Look, path: Curve) -> None:
    """Draw a line; the clairvoyant's is broad, to be seen below a policy that does the same."""
    broad, alpha = (3.4, 0.6) if run.policy in CLAIRVOYANTS else (1.6, 1.0)
    ax.plot(path.hours, path.amount, color=look.colour, ls=look.dash, lw=broad, alpha=alpha)


def money(ax: Axes, scene: Scene, looks: Mapping[str, Look]) -> None:
    """Draw what every run had spent over time."""
    seen = list[float]()
    for run in scene.runs:
        look, curve = looks[run.policy], numbers.spent(run)
        _line(ax, run, look, curve)
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


def money_keys(scene: Scene, looks: Mapping[str, Look]) -> list[Line2D]:
    """Return the legend: each line with the run's whole bill."""
    names = short_names(looks)
    return [
        line_key(looks[run.policy], f"{names[run.policy]}: {format_usd(run.bill.cost_usd)}")
        for run in scene.runs
    ]
