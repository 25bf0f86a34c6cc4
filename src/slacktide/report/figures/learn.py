"""A picture of learning: which policy was trusted when, and the regret against the best in hindsight."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.errors import InputError
from slacktide.report.figures.drawing import style
from slacktide.report.figures.drawing.style import FAINT, INK, drawable, looks, save_picture, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.policies.selection.hedge import Hedge

DRAWN = 8  # arms with a colour of their own; the others are one grey band


def plot_learned(hedge: Hedge, path: str | Path) -> None:
    """Draw what was learned into a PNG, SVG or PDF file.

    Raises InputError when nothing was learned, FileError when the file cannot be written.
    """
    if not hedge.trail.points:
        raise InputError("at least one job must have been learned from to draw it, got none; teach it first")
    save_picture(lambda: _figure(hedge), path)


def _figure(hedge: Hedge) -> Figure:
    title = f"{hedge.ended} jobs, {len(hedge.arms)} policies: {drawable(hedge.leader, 70)} leads"
    figure = style.titled_figure(title, (11, 7))
    rows = figure.add_gridspec(2, 1, height_ratios=(1.5, 1.0))
    trust = figure.add_subplot(rows[0])
    _weights(trust, hedge)
    _regret(figure.add_subplot(rows[1], sharex=trust), hedge)
    return figure


def _weights(axes: Axes, hedge: Hedge) -> None:
    """Stack the weights of the heaviest arms over time; the one that leads now lies at the bottom."""
    points = hedge.trail.points
    shares = np.zeros((len(points) + 1, len(hedge.arms)))
    shares[0] = hedge.prior
    for row, point in enumerate(points, start=1):
        for arm, share in point.weights.items():
            shares[row, arm] = share
    jobs = [0, *(point.jobs for point in points)]
    order = np.argsort(-(hedge.weights + 1e-3 * shares.max(axis=0)), kind="stable")[:DRAWN]
    names = list(short_names([hedge.arms[arm] for arm in order], 60).values())
    colours = [look.colour for look in looks(names).values()]
    axes.stackplot(jobs, shares[:, order].T, labels=names, colors=colours, alpha=0.85, lw=0)
    if len(hedge.arms) > len(order):
        base = shares[:, order].sum(axis=1)
        label = f"{len(hedge.arms) - len(order)} others"
        axes.fill_between(jobs, base, 1.0, color=FAINT, alpha=0.25, lw=0, label=label)
    for change in hedge.leaders[1:]:
        axes.axvline(change.jobs, color=INK, lw=0.7, ls=":")
    axes.set(ylim=(0, 1), ylabel="share of trust", xlim=(0, max(jobs)))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_title("Trust in each policy (dotted: the leader changed)")
    axes.tick_params(axis="x", labelbottom=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _regret(axes: Axes, hedge: Hedge) -> None:
    points = hedge.trail.points
    jobs = [0, *(point.jobs for point in points)]
    bound = [0.0, *(point.bound for point in points)]
    axes.plot(jobs, bound, color=FAINT, ls="--", label="the most it can be")
    axes.plot(jobs, [0.0, *(point.regret for point in points)], color=INK, label="expected regret")
    axes.axhline(0.0, color=FAINT, lw=0.6)
    axes.set(xlabel="jobs ended", ylabel="scaled utility")
    axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axes.set_title("Regret against the best single policy in hindsight")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    axes.grid(axis="both")
