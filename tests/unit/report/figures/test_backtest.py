"""Pictures are drawn for every back-test, and what they show adds up."""

from __future__ import annotations

import dataclasses
import struct
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from slacktide.errors import InputError
from slacktide.report import scene as numbers
from slacktide.report.figures.backtest import PANELS, panel_svg, plot_backtest
from slacktide.report.scene import Steps, merged, scene
from slacktide.report.style import PALETTE, looks, tick_hours, tick_labels
from slacktide.results.comparison import Comparison


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
    assert panel_svg(comparison, "cost", says="x") == panel_svg(comparison, "cost", says="x")


def test_users_settings_are_left_alone(comparison: Comparison, tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 23.0, "axes.facecolor": "red"}):
        plot_backtest(comparison, tmp_path / "a.png")
        assert matplotlib.rcParams["font.size"] == 23.0
    with_red = (tmp_path / "a.png").read_bytes()
    plot_backtest(comparison, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == with_red


def test_svg_panels_can_stand_in_one_page(comparison: Comparison) -> None:
    drawn = {panel: panel_svg(comparison, panel, says='"quoted"') for panel in PANELS}
    for panel, svg in drawn.items():
        assert svg.startswith('<svg role="img" aria-label="&quot;quoted&quot;"')
        assert "http" not in svg
        assert svg.count('id="') == svg.count(f'id="{panel}-')
        assert "var(--ink)" in svg


def test_a_report_needs_a_start_in_detail(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one start with all its slots"):
        plot_backtest(dataclasses.replace(comparison, detail=()), tmp_path / "a.png")


def test_drawn_holdings_are_what_was_held(odd: Comparison) -> None:
    seen = scene(odd)
    for run in odd.detail:
        spot, on_demand = merged(*numbers.held(run, seen.pool.slot_hours))
        idle = sum(record.lived.stretch.held_hours == 0 for record in run.slots)
        if idle == 0:
            assert np.sum(spot.values * np.diff(spot.edges)) == pytest.approx(run.spot_gpu_hours)
            assert np.sum(on_demand.values * np.diff(on_demand.edges)) == pytest.approx(
                run.on_demand_gpu_hours
            )


def test_drawn_progress_ends_where_the_run_ended(odd: Comparison) -> None:
    slot_hours = scene(odd).pool.slot_hours
    for run in odd.detail:
        path = numbers.progress(run, odd.job, slot_hours)
        assert np.all(np.diff(path.hours) >= -1e-9)
        assert path.share[-1] == pytest.approx(
            run.slots[-1].after.progress_gpu_hours / odd.job.work_gpu_hours
        )
        marks, _ = numbers.preemptions(run, odd.job, slot_hours)
        assert len(marks.hours) == run.preemptions


def test_merging_keeps_the_shape() -> None:
    steps = Steps(np.array([1.0, 1.0, 2.0, 2.0, 1.0]), np.arange(6.0))
    (kept,) = merged(steps)
    assert kept.values.tolist() == [1, 2, 1]
    assert kept.edges.tolist() == [0, 2, 4, 5]


def test_every_policy_keeps_its_own_look() -> None:
    names = [f"policy-{number}" for number in range(10)]
    found = looks(["clairvoyant", *names])
    assert len(set(found.values())) == 11
    assert [found[name].colour for name in names[:8]] == list(PALETTE)
    assert found["clairvoyant"].colour not in PALETTE


@pytest.mark.parametrize("end", [0.001, 0.3, 1.0, 14.0, 250.0, 9000.0])
def test_ticks_are_few_and_end_in_sight(end: float) -> None:
    ticks = tick_hours(end)
    assert 2 <= len(ticks) <= 11
    assert ticks[0] == 0
    assert ticks[-1] <= end * 1.001


def test_tick_labels_give_the_date_where_it_turns() -> None:
    labels = tick_labels([0, 2, 4], datetime(2025, 10, 4, 20, 30, tzinfo=UTC))
    assert labels == ["start\n20:30\nSat 4 Oct", "2h\n22:30", "4h\n00:30\nSun 5 Oct"]
