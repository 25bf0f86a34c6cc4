"""What the panels of a run show where users stumbled: flat prices, cut offers, lines on one another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slacktide.report.figures.backtest import cost
from slacktide.report.figures.drawing import scene as numbers
from slacktide.report.figures.drawing.style import drawing, log_scale, looks, percent_ticks
from slacktide.report.figures.panels import holdings, market, progress
from slacktide.report.figures.stream import name_points
from slacktide.results.comparison import Comparison

from ..conftest import make, pool
from ..runs import told


@pytest.fixture
def ax() -> Iterator[Axes]:
    with drawing():
        yield Figure().subplots()


def texts(ax: Axes) -> list[str]:
    """Return all that is written in a panel."""
    legend = ax.get_legend()
    keys = [one.get_text() for one in legend.get_texts()] if legend else []
    return [*(one.get_text() for one in ax.texts), *keys]


def test_prices_that_hardly_move_are_said_in_a_line(ax: Axes) -> None:
    run = told().run
    flat = pool()
    flat = dataclasses.replace(flat, spot_usd_per_gpu_hour=np.full(len(flat), 2.0))
    steady = numbers.scene([dataclasses.replace(run, pool=flat)])
    moving = numbers.scene([run])
    assert market.is_steady(steady.spot_price().values, steady.on_demand_price().values)
    assert not market.is_steady(moving.spot_price().values)
    market.steady_price(ax, steady)
    assert "spot $2.00, on demand $10.00, throughout" in texts(ax)


@pytest.mark.parametrize(("widest", "said"), [(4, True), (8, False)])
def test_spot_cut_at_the_widest_width_is_said(ax: Axes, widest: int, said: bool) -> None:
    shown = numbers.scene([told(widths=tuple(range(1, widest + 1))).run])
    holdings.holdings_key(ax, shown)
    assert any("more than 4: shown as 4" in text for text in texts(ax)) == said


def test_more_spot_than_anyone_needs_is_cut_and_said(ax: Axes) -> None:
    market.obtainable(ax, numbers.scene([told(widths=(1, 2)).run]))
    assert any("more than 6: shown as 6" in text for text in texts(ax))
    assert ax.get_ylim()[1] < 7


def test_ahead_of_the_line_is_work_done_less_the_line() -> None:
    run = told().run
    work = numbers.done(run)
    apart = numbers.ahead(work, run.job)
    line = [run.job.line_gpu_hours(hours) for hours in work.hours]
    assert apart.amount == pytest.approx(work.amount - np.array(line))
    assert apart.amount[0] == 0.0


def test_the_line_bends_at_the_deadline() -> None:
    late = told(work_gpu_hours=500.0).run
    work = numbers.done(late)
    assert late.job.deadline_hours in work.hours
    assert work.hours[-1] > late.job.deadline_hours
    assert np.all(np.diff(work.hours) >= 0)


def test_lines_are_named_by_policy_and_outcome() -> None:
    shown = numbers.scene(told().runs)
    keys = [str(key.get_label()) for key in progress.keys(shown, looks(run.policy for run in shown.runs))]
    assert keys[0].startswith("uniform-progress: done at")
    assert "on demand alone" in keys[1]


def test_every_start_stands_behind_the_mean(ax: Axes, comparison: Comparison) -> None:
    cost(ax, comparison, looks(one.policy for one in comparison.summary))
    points = np.concatenate([line.get_xdata() for line in ax.lines if line.get_marker() in ("o", "x")])
    assert sorted(points) == pytest.approx(sorted(run.cost_usd for run in comparison.runs))


def test_late_starts_are_crosses(ax: Axes) -> None:
    late = make(work_gpu_hours=500.0)
    cost(ax, late, looks(one.policy for one in late.summary))
    crosses = sum(np.size(line.get_xdata()) for line in ax.lines if line.get_marker() == "x")
    assert crosses == sum(not run.on_time for run in late.runs) > 0


def test_axes_of_ratios_say_so(ax: Axes) -> None:
    log_scale(ax, x="response", y="share of jobs")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("response (log scale)", "share of jobs (log scale)")


@pytest.mark.parametrize(("signed", "label"), [(True, "+2.5%"), (False, "2.5%")])
def test_no_percentage_is_rounded(ax: Axes, signed: bool, label: str) -> None:
    percent_ticks(ax.yaxis, signed=signed)
    assert ax.yaxis.get_major_formatter()(0.025, 0) == label


def test_names_beside_points_hide_no_other(ax: Axes) -> None:
    ax.set(xlim=(0, 10), ylim=(0, 10))
    at = {"first": (5.0, 5.0), "second": (5.2, 5.0), "third": (5.1, 5.1), "at the edge": (9.9, 1.0)}
    name_points(ax, at, dict.fromkeys(at, "black"))
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])
    assert all(box.x1 <= ax.get_window_extent().x1 for box in boxes)
