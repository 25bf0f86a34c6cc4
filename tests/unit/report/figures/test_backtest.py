"""Pictures are drawn for every back-test, and what they show adds up."""

from __future__ import annotations

import dataclasses
import re
import struct
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.report.figures.backtest import cost_svg, plot_backtest
from slacktide.report.figures.drawing import scene as numbers
from slacktide.report.figures.drawing.scene import Steps, merged
from slacktide.report.figures.drawing.style import PALETTE, looks, tick_hours, tick_labels
from slacktide.report.figures.run import PANELS, panel_svg
from slacktide.results.comparison import Comparison
from slacktide.results.run import Run, RunResult

NOT_STRICT = r'style=|<style|<script|xlink|href="(?!#)|url\((?!#)'
"""What a page with a strict content policy does not take."""


def size_px(path: Path) -> tuple[int, int]:
    """Return a PNG picture's size; fails when it is none."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_png_of_every_back_test(odd: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "new" / "picture.png"
    plot_backtest(odd, path)
    width, height = size_px(path)
    assert width == 1650
    assert 1200 < height < 4000
    assert "matplotlib.pyplot" not in sys.modules


def test_same_back_test_same_picture(comparison: Comparison, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        plot_backtest(comparison, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert cost_svg(comparison) == cost_svg(comparison)


def test_users_settings_are_left_alone(comparison: Comparison, tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 23.0, "axes.facecolor": "red"}):
        plot_backtest(comparison, tmp_path / "a.png")
        assert matplotlib.rcParams["font.size"] == 23.0
    with_red = (tmp_path / "a.png").read_bytes()
    plot_backtest(comparison, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == with_red


def test_svg_panels_can_stand_in_one_page(comparison: Comparison) -> None:
    drawn = {panel: panel_svg(comparison.detail, panel) for panel in PANELS}
    for panel, svg in {**drawn, "cost": cost_svg(comparison)}.items():
        assert svg.startswith('<svg role="img" aria-label="')
        assert "http" not in svg
        assert svg.count('id="') == svg.count(f'id="{panel}-')
        assert "var(--ink, currentColor)" in svg
        assert not re.search(r'style=|<style|<script|xlink|href="(?!#)|url\((?!#)', svg), (
            "fit for a strict page"
        )


def test_a_report_needs_a_start_in_detail(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one run with all its stretches"):
        plot_backtest(dataclasses.replace(comparison, detail=()), tmp_path / "a.png")
    empty = tuple(dataclasses.replace(run, decisions=()) for run in comparison.detail)
    with pytest.raises(InputError, match="at least one run with all its stretches"):
        plot_backtest(dataclasses.replace(comparison, detail=empty), tmp_path / "a.png")


def run_of(comparison: Comparison, shown: RunResult) -> Run:
    """Return the same run as it was counted among all starts."""
    return next(
        run
        for run in comparison.runs
        if (run.policy, run.pool, run.start_slot) == (shown.policy, shown.pool.name, shown.start_slot)
    )


def test_drawn_holdings_are_what_was_held(odd: Comparison) -> None:
    for shown in odd.detail:
        run = run_of(odd, shown)
        spot, on_demand = merged(*numbers.held(shown))
        hours = np.diff(spot.edges)
        assert np.sum(spot.values * hours) == pytest.approx(run.spot_gpu_hours)
        assert np.sum(on_demand.values * hours) == pytest.approx(run.on_demand_gpu_hours)


def test_drawn_progress_and_money_end_where_the_run_ended(odd: Comparison) -> None:
    for shown in odd.detail:
        run = run_of(odd, shown)
        path, money = numbers.share(numbers.done(shown), shown.job), numbers.spent(shown)
        assert np.all(np.diff(path.hours) >= -1e-9)
        assert path.amount[-1] == pytest.approx(shown.laps[-1].after_gpu_hours / odd.job.work_gpu_hours)
        assert (path.amount[-1] == pytest.approx(1.0)) == np.isfinite(run.finish_hours)
        assert money.amount[-1] == pytest.approx(run.cost_usd)
        assert len(shown.losses) == run.preemptions
        assert shown.lost_gpu_hours == pytest.approx(run.lost_gpu_hours)
        assert shown.finish_hours == pytest.approx(run.finish_hours)
        assert shown.on_time == run.on_time


def test_merging_keeps_the_shape() -> None:
    steps = Steps(np.array([1.0, 1.0, 2.0, 2.0, 1.0]), np.arange(6.0))
    (kept,) = merged(steps)
    assert kept.values.tolist() == [1, 2, 1]
    assert kept.edges.tolist() == [0, 2, 4, 5]


def test_every_policy_keeps_its_own_look() -> None:
    names = [f"policy-{number}" for number in range(10)]
    found = looks(["clairvoyant", "on demand alone", *names])
    assert len(set(found.values())) == 12
    assert [found[name].colour for name in names[:8]] == list(PALETTE)
    assert not {found[name].colour for name in ("clairvoyant", "on demand alone")} & set(PALETTE)


@pytest.mark.parametrize("end", [0.001, 0.3, 1.0, 14.0, 250.0, 9000.0])
def test_ticks_are_few_and_end_in_sight(end: float) -> None:
    ticks = tick_hours(end)
    assert 2 <= len(ticks) <= 11
    assert ticks[0] == 0
    assert ticks[-1] <= end * 1.001


def test_tick_labels_give_the_date_where_it_turns() -> None:
    labels = tick_labels([0, 2, 4], datetime(2025, 10, 4, 20, 30, tzinfo=UTC))
    assert labels == ["start\n20:30\nSat 4 Oct", "2h\n22:30", "4h\n00:30\nSun 5 Oct"]
