"""The aggregations of the experiments: means, shares, gains and regrets from numbers known beforehand."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.results.run import Run
from slacktide_papers.deadline import convergence, places, rows, sweeps
from slacktide_papers.deadline.gains import BEST, STRONGEST, gains
from slacktide_papers.deadline.measure import Cell, point
from slacktide_papers.deadline.rows import Chosen, Gain, Point
from tests import build

CELL = Cell(rows.TIGHTNESS, "here", 14.0, "14 h", (), 14.0, 2, ())


def run(utility: float, *, cost: float = 1.0, on_time: bool = True) -> Run:
    return Run("x", "p", 0, cost, utility, 1.0, on_time, 0.0, 0.0, 0, 0.0)


def at(series: str, utility: float, *, x: float = 14.0, experiment: str = rows.TIGHTNESS) -> Point:
    return Point(experiment, "here", x, f"{x:g} h", series, utility, 100.0, utility / 100.0, 0.0, 1.0, 1.0, 5)


def everyone(x: float, **utilities: float) -> list[Point]:
    names = {
        "od": rows.ON_DEMAND, "msu": rows.MAXIMAL_SPOT, "up": rows.UNIFORM, "arima": rows.AHAP_ARIMA,
        "noisy": rows.AHAP_NOISY, "ahanp": rows.AHANP,
    }  # fmt: skip
    return [at(names[key], utility, x=x) for key, utility in utilities.items()]


def ended(**changes: object) -> Chosen:
    one = Chosen(
        "s", rows.PAPER_RATE, 10, 3, 60.0, 60.0, "a", 80.0, "a", 80.0, 50.0, "a", 0.5, 0.6, 1.0, 2.0,
        10.0, 40.0, 50.0,
    )  # fmt: skip
    return one._replace(**changes)  # type: ignore[arg-type]


ENDS = [ended(), ended(rate=rows.OWN_RATE, utility_usd=80.0)]


def found(all_gains: list[Gain], challenger: str, baseline: str) -> Gain:
    (one,) = [gain for gain in all_gains if (gain.challenger, gain.baseline) == (challenger, baseline)]
    return one


def test_point_is_a_ratio_of_means() -> None:
    made = point(CELL, "x", [run(10.0), run(30.0, cost=3.0, on_time=False)], np.array([40.0, 60.0]))
    assert made.share == pytest.approx(20.0 / 50.0)
    assert (made.cost_usd, made.on_time_share, made.runs) == (2.0, 0.5, 2)


def test_share_of_a_constant_part_has_no_error() -> None:
    made = point(CELL, "x", [run(20.0), run(30.0)], np.array([40.0, 60.0]))
    assert made.share_error == pytest.approx(0.0, abs=1e-12)


def test_gains_are_taken_place_by_place() -> None:
    points = [
        *everyone(12.0, od=10.0, msu=50.0, up=60.0, arima=75.0, noisy=90.0, ahanp=66.0),
        *everyone(14.0, od=10.0, msu=40.0, up=80.0, arima=60.0, noisy=90.0, ahanp=72.0),
    ]
    made = gains(points, ENDS)
    best = found(made, BEST, rows.UNIFORM)
    assert best.largest == pytest.approx(0.25)
    assert best.where == "tightness: here, 12 h"
    assert best.typical == pytest.approx((0.25 - 0.1) / 2)
    assert best.ahead_share == 0.5
    assert best.typical_points == pytest.approx((15.0 - 8.0) / 2 / 100.0)
    assert found(made, rows.AHANP, rows.MAXIMAL_SPOT).largest == pytest.approx(0.8)
    assert found(made, BEST, STRONGEST).largest == pytest.approx(0.25)
    assert found(made, rows.SELECTIONS[rows.OWN_RATE], STRONGEST).largest == pytest.approx(0.6)
    assert found(made, rows.SELECTIONS[rows.PAPER_RATE], rows.UNIFORM).largest == pytest.approx(0.2)


def test_a_baseline_that_earns_nothing_is_left_out_and_counted() -> None:
    points = everyone(12.0, od=1.0, msu=-5.0, up=60.0, arima=75.0, noisy=90.0, ahanp=66.0)
    made = found(gains(points, ENDS), BEST, rows.MAXIMAL_SPOT)
    assert math.isnan(made.largest)
    assert (made.points, made.left_out, made.ahead_share) == (1, 1, 1.0)


def test_other_experiments_do_not_count_in_the_gains() -> None:
    points = everyone(12.0, od=10.0, msu=50.0, up=60.0, arima=75.0, noisy=90.0, ahanp=66.0)
    other = at(rows.UNIFORM, 1.0, experiment=rows.NOISE)
    assert gains([*points, other], ENDS) == gains(points, ENDS)


def table(best: int, *, starts: int = 6, arms: int = 4) -> convergence.Earned:
    shares = np.full((starts, arms), 0.2)
    shares[:, best] = 0.9
    return convergence.Earned(tuple("abcd"), shares * 100.0, shares, np.full((starts, 3), 30.0))


@pytest.mark.parametrize("rate", [rows.PAPER_RATE, rows.OWN_RATE])
def test_selection_finds_the_one_good_arm(rate: str) -> None:
    steps, ends = convergence.converge("s", [table(2)], 200, seed=1)
    (end,) = [one for one in ends if one.rate == rate]
    assert (end.leader, end.best, end.late_best) == ("c", "c", "c")
    assert end.good_weight > 0.95
    assert end.best_usd == pytest.approx(90.0)
    assert end.utility_usd > end.pool_usd
    assert max(step.jobs for step in steps) == 200


def test_regret_keeps_the_papers_bound_when_the_world_changes() -> None:
    _, ends = convergence.converge("s", [table(0), table(3)], 200, seed=1)
    (end,) = [one for one in ends if one.rate == rows.PAPER_RATE]
    assert 0.0 < end.regret <= end.paper_bound == convergence.paper_bound(200, 4)
    assert end.late_best == "d"


def test_the_job_is_just_worth_its_on_demand_bill() -> None:
    pool = build.pool(1.0, 4.0, 8, slots=99, name="p")
    job = places.job_of(pool, 14.0)
    assert job.value_usd == pytest.approx(1.1 * 80 * 4.0)
    assert job.worthless_after_hours == pytest.approx(21.0)


def test_starts_lie_after_the_past_and_leave_the_deadline() -> None:
    pool = build.pool(1.0, 4.0, 8, slots=200, name="p")
    starts = places.starts_of(places.job_of(pool, 14.0), pool, 5)
    assert (starts[0], starts[-1], len(starts)) == (40, 172, 5)


def test_a_shaken_market_keeps_its_mean_and_grows_its_swings() -> None:
    wild = places.shaken(2.0)
    assert (wild.level_gpus, wild.spot_share) == (places.CONTESTED.level_gpus, places.CONTESTED.spot_share)
    assert wild.drifts[0].spread_gpus == 2 * places.CONTESTED.drifts[0].spread_gpus
    assert dataclasses.replace(places.shaken(1.0), name="contested") == places.CONTESTED


def test_every_threshold_of_the_sweep_changes_one_parameter_only() -> None:
    cells = [cell for cell in sweeps.parameters(places.QUICK, 0) if cell.panel == "window ω"]
    policies = [cell.contenders[0].policy for cell in cells]
    assert [repr(policy) for policy in policies] == [
        f"Ahap(window={window}, commitment=1, price_threshold=0.7)" for window in range(1, 6)
    ]


def test_traces_that_cannot_be_used_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.csv").write_text("what,is,this\n1,2,3\n")
    monkeypatch.setenv("SLACKTIDE_DATA", str(tmp_path))
    found_places, notes = places.real_places(None)
    assert found_places == []
    assert "broken.csv" in notes[0]
    with pytest.raises(InputError, match="at least one trace must be usable"):
        places.real_places(tmp_path)
