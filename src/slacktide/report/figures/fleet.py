"""A picture of a fleet's month: money against the line, GPUs held, the price of waiting, response times."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.budget import ROUND_HOURS
from slacktide.report.figures.drawing import style
from slacktide.report.figures.drawing.sheet import DOTS_PER_IN, Row, as_svg, stack
from slacktide.report.figures.drawing.style import FAINT, INK, PALETTE, drawable, log_scale, looks
from slacktide.report.text.tables import fleet as sentences
from slacktide.results.fleet import IN_TIME, outcomes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slacktide.results.fleet import FleetComparison

SPOT, ON_DEMAND, RESERVE = PALETTE[2], PALETTE[1], PALETTE[4]
CORNERS = 1200  # moments that a line shows at most
BINS = 190  # times over which GPUs are averaged: four a day in a month


def plot_fleet(found: FleetComparison, path: str | os.PathLike[str]) -> None:
    """Draw a simulated fleet into a file; raises FileError when it cannot be written."""
    style.save_picture(lambda: _figure(found, _title(found)), path, DOTS_PER_IN)


def fleet_svg(found: FleetComparison) -> str:
    """Return the picture as SVG to embed in a page."""
    says = "Money spent against the budget, GPUs held against offered, and response times"
    return as_svg(lambda: _figure(found, []), "fleet", says=says)


def _title(found: FleetComparison) -> list[str]:
    story = found.story
    met = sum(one.outcome == IN_TIME for one in outcomes(found.month, story))
    return [
        f"{sentences.simulated_time(found.month)} of {words.count(len(found.month.jobs), 'job')} under "
        f"{drawable(story.policy, 40)}",
        "",
        f"spent {format_usd(story.spent_usd)}, budget {sentences.budget_words(found.month.allowance)}; "
        f"{met} of {found.deadlines} deadlines met; jobs without a deadline took "
        f"{words.response(story.responses.mean_hours)} on average",
    ]


def _figure(found: FleetComparison, title: list[str]) -> Figure:
    end = max(found.month.hours, found.story.moments.hours[-1])
    rows = [Row(lambda ax: _money(ax, found, end), 2.4), Row(lambda ax: _gpus(ax, found), 2.0)]
    if sentences.prices_seen(found):
        rows.append(Row(lambda ax: _price(ax, found), 1.2))
    rows.append(Row(lambda ax: _responses(ax, found), 2.2, above_in=0.45, timed=False, below_in=0.55))
    return stack(rows, title, start=found.month.start, end_hours=float(end))


def _places(found: FleetComparison) -> Floats:
    count = len(found.story.moments.hours)
    places: Floats = np.unique(np.linspace(0, count - 1, min(count, CORNERS)).astype(int))
    return places


def _money(ax: Axes, found: FleetComparison, end_hours: float) -> None:
    """Draw what was spent in the period, what is reserved on top of it, and the straight line."""
    moments, places = found.story.moments, _places(found)
    hours, spent, reserved = (
        column[places] for column in (moments.hours, moments.spent_usd, moments.reserved_usd)
    )
    if found.month.allowance.renewal != "rolling":
        # Where a period ends, what was spent starts from zero: the line is broken there.
        renewals = np.flatnonzero(np.diff(spent) < 0) + 1
        hours, reserved = np.insert(hours, renewals, hours[renewals]), np.insert(reserved, renewals, 0.0)
        spent = np.insert(spent, renewals, np.nan)
    ax.fill_between(hours, 0, spent, color=SPOT, alpha=0.35, lw=0)
    ax.plot(hours, spent, color=SPOT, lw=1.6, label="spent")
    if reserved.any():
        ax.fill_between(
            hours, spent, spent + reserved, color=RESERVE, alpha=0.45, lw=0,
            label="reserved for deadlines promised",
        )  # fmt: skip
    edges, line, budget = _line(found, end_hours)
    ax.plot(edges, line, color=FAINT, lw=1.1, ls=(0, (5, 2)), label="straight line")
    ax.plot(edges, budget, color=INK, lw=1.2, label="budget")
    ax.set_ylim(0, 1.12 * max(float(np.nanmax(budget)), float(np.nanmax(spent + reserved))))
    ax.yaxis.set_major_formatter(lambda usd, _: f"${usd:,.0f}")
    _finish(ax, f"Money: spent in the {sentences.period_name(found.month.allowance)}")


def _line(found: FleetComparison, end_hours: float) -> tuple[Floats, Floats, Floats]:
    """Return the straight line of each period and its budget: when, how much by then, how much in all."""
    allowance, corners = found.month.allowance, list[tuple[float, float, float]]()
    if allowance.renewal == "rolling":
        usd, turn = allowance.usd, min(allowance.period_hours, end_hours)
        part = usd * turn / allowance.period_hours
        corners = [(0.0, 0.0, usd), (turn, part, usd), (end_hours, part, usd)]
    now = 0.0
    while now < end_hours and allowance.renewal != "rolling":
        period = allowance.period(now)
        until = min(period.until_hours, end_hours)
        part = period.budget_usd * (until - now) / (period.until_hours - now)
        # Not a number between two periods: the line starts again from zero.
        corners += [
            (now, 0.0, period.budget_usd),
            (until, part, period.budget_usd),
            (until, math.nan, math.nan),
        ]
        now = period.until_hours
    edges, line, budget = (np.array(column) for column in zip(*corners, strict=True))
    return edges, line, budget


def _gpus(ax: Axes, found: FleetComparison) -> None:
    """Draw the GPUs that jobs held, spot and on demand on top, against the spot that was offered."""
    moments = found.story.moments
    per = max(1, len(moments.hours) // BINS)
    hours, spot, on_demand, offered = (
        _averaged(column, per)
        for column in (moments.hours, moments.spot_gpus, moments.on_demand_gpus, moments.offered_gpus)
    )
    ax.fill_between(hours, 0, offered, color=FAINT, alpha=0.25, lw=0, label="spot offered")
    ax.fill_between(hours, 0, spot, color=SPOT, alpha=0.8, lw=0, label="spot held")
    ax.fill_between(hours, spot, spot + on_demand, color=ON_DEMAND, alpha=0.85, lw=0, label="on demand held")
    ax.set_ylim(bottom=0)
    every = words.rounded(per * found.month.slot_hours)
    _finish(ax, f"GPUs held against offered, averages over {every}")


def _averaged(column: Floats | Ints, per: int) -> Floats:
    """Return the mean of every `per` entries; an incomplete group at the end is left out."""
    whole = len(column) // per * per
    means: Floats = column[:whole].reshape(-1, per).mean(axis=1)
    return means


def _price(ax: Axes, found: FleetComparison) -> None:
    moments, places = found.story.moments, _places(found)
    ax.plot(moments.hours[places], moments.usd_per_job_hour[places], color=PALETTE[0], lw=1.2)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(lambda usd, _: f"${usd:,.4g}")
    _finish(ax, "What an hour of a job's waiting is worth", legend=False)


def _responses(ax: Axes, found: FleetComparison) -> None:
    """Draw for each allocator the share of jobs without a deadline that took longer than a time."""
    known = looks(row.policy for row in found.rows)
    names = style.short_names(known, 30)
    for row in found.rows:
        run, look = row.run, known[row.policy]
        ranked = np.sort(run.response_hours[run.best_effort & np.isfinite(run.finish_hours)])
        if not len(ranked):
            continue
        left = 1.0 - np.arange(len(ranked)) / len(ranked)
        name = f"{names[row.policy]}: mean {words.response(row.measured.mean_hours)}, "
        name += format_usd(row.measured.spent_usd)
        ax.step(ranked, left, where="post", color=look.colour, ls=look.dash, lw=1.4, label=name)
    log_scale(ax, x="response")
    ax.set_ylim(0, 1.02)
    low, high = ax.get_xlim()
    ax.set_xticks([hours for hours in ROUND_HOURS if low <= hours <= high])
    style.duration_ticks(ax.xaxis)
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.grid(axis="x")
    _finish(ax, "Share of the jobs without a deadline that take longer than …", legend=False)
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.98))


def _finish(ax: Axes, title: str, *, legend: bool = True) -> None:
    ax.set_title(title, fontsize=9.5, fontweight="bold")
    ax.grid(axis="y")
    if legend:
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.02), ncols=5)
