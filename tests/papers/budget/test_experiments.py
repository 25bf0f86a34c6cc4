"""Experiments on streams: nobody is below the bound, equal bills are equal, recorded streams are read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from slacktide.budget.widths import least_budget_gpus
from slacktide.core.errors import FileError, InputError
from slacktide.simulation.fleet.comparison import compare_streams
from slacktide_papers.baselines.efficiency_band import EfficiencyBand
from slacktide_papers.budget import rows
from slacktide_papers.budget.cases import IDEAL, QUICK, USUAL, Case, Machines
from slacktide_papers.budget.equal import contests, costs, efficient, hours_at, ratios
from slacktide_papers.budget.experiments import reproduce
from slacktide_papers.budget.families import (
    ROUND_HOURS,
    band,
    budgets_of,
    fixed_width,
    with_learners,
)
from slacktide_papers.budget.fleets import MIXED_FLEETS, PAPER_FLEETS, drawn, synthetic
from slacktide_papers.budget.measure import check, measure, widths_along
from slacktide_papers.budget.rows import Point
from slacktide_papers.budget.traces import (
    NO_DATA,
    SPEEDUPS,
    measured_classes,
    recorded,
    recorded_cases,
)

SMALL = QUICK._replace(
    budgets=5, clusters=(1.3, 3.0), efficiencies=(0.8, 0.4), widths=(1, 2, 8), cluster_widths=(1, 4)
)
SPEEDUP_LINES = """app,hw,n_gpus,time_to_target_s
bert,aws,1,7200
bert,aws,2,4000
bert,aws,4,4100
bert,rtx,1,1
ncf,aws,1,36
"""


def point(
    average_gpus: float, mean_hours: float, series: str = "a", experiment: str = rows.AUTOSCALING
) -> Point:
    return Point(
        experiment, "p", "ideal machines", series, "k", math.nan, average_gpus, average_gpus / 10,
        mean_hours, 2 * mean_hours, 1.0, mean_hours, 0.0, 0.0, 0.0, 0, 1, 5,
    )  # fmt: skip


@pytest.fixture(scope="module")
def streams() -> list[Case]:
    return [drawn(MIXED_FLEETS[3], 120, 4), synthetic(60, 1)]


@pytest.mark.parametrize("machines", [IDEAL, USUAL], ids=["ideal", "usual"])
def test_nobody_is_below_the_bound(streams: list[Case], machines: Machines) -> None:
    for case in (one.on(machines) for one in streams):
        found = {family.series: measure(case, "x", family) for family in with_learners(case, SMALL)}
        assert {*rows.BASELINES, rows.FIXED, rows.ONLINE} <= set(found)
        assert min(one.over_bound for points in found.values() for one in points) >= 1 - 1e-9


def test_fixed_width_is_on_the_bound_where_machines_are_ideal(streams: list[Case]) -> None:
    for case in streams:
        points = measure(case, "x", fixed_width(case, SMALL))
        # The mix of one class counts jobs, which differ in size.
        assert max(one.over_bound for one in points) < 1.05
        assert [one.mean_hours for one in points] == sorted((one.mean_hours for one in points), reverse=True)


def test_the_synthetic_stream_is_what_policies_are_told() -> None:
    case = synthetic(300, 5)
    for told, came in zip(case.classes, case.bound.job_classes, strict=True):
        assert came.arrivals_per_hour == pytest.approx(told.arrivals_per_hour)
        assert came.work_gpu_hours == pytest.approx(told.work_gpu_hours)
    assert case.elsewhere != case.classes


def test_formula_and_simulation_agree() -> None:
    case = drawn(PAPER_FLEETS[0], 4_000, 7)
    for budget in (0.85, 1.0, 2.0):
        found = check(case, budget)
        assert abs(found.simulated_hours - found.formula_hours) < 4 * found.error_hours
        assert found.over_bound == pytest.approx(1.0, abs=1e-3)


def test_widths_along_the_budget_are_the_papers() -> None:
    first, second = widths_along(drawn(PAPER_FLEETS[0], 10, 0), [2.0])
    assert first.real_gpus == pytest.approx(6.0)
    assert second.real_gpus == pytest.approx(9.0)
    assert first.real_hours == pytest.approx(1 / 3)
    assert first.whole_hours == pytest.approx(1 / 3)


def test_budgets_begin_where_the_work_just_gets_done() -> None:
    classes = PAPER_FLEETS[0].classes
    budgets = budgets_of(classes, 6)
    assert least_budget_gpus(classes) < budgets[0]
    assert budgets[-1] == pytest.approx(5 * least_budget_gpus(classes))


def test_hours_between_points() -> None:
    points = [point(10, 4.0), point(40, 1.0), point(20, 5.0)]  # the last is dearer and slower than the first
    assert efficient(points) == points[:2]
    assert hours_at(points, 20, 1.0) == pytest.approx(2.0)
    assert hours_at(points, 9.9, 1.0) is None
    assert hours_at(points, 100, 1.0) == 1.0
    assert hours_at(points, 100, 0.9) is None  # more money would help, but was not tried
    assert hours_at(points, 20, 1.0, "p95_hours") == pytest.approx(4.0)
    assert hours_at([], 20, 1.0) is None


def test_ratios_are_at_equal_bills() -> None:
    fixed = [point(10, 4.0, rows.FIXED), point(40, 1.0, rows.FIXED)]
    found = ratios([*fixed, point(20, 3.0, "b"), point(5, 9.0, "b")])
    (only,) = found  # nothing can be said of a bill below fixed-width's cheapest
    assert (only.series, only.reference) == ("b", rows.FIXED)
    assert only.mean_ratio == pytest.approx(1.5)
    (contest,) = contests([only, only._replace(load_multiple=9.0)])
    assert contest.points == 1
    assert contest.median == pytest.approx(1.5)


def test_ratios_are_those_of_the_comparison_that_turns_the_optimum_to_the_same_bill() -> None:
    case = synthetic(150, 2)
    fixed, baseline = (
        measure(case, rows.AUTOSCALING, family)
        for family in (fixed_width(case, SMALL._replace(budgets=12)), band(SMALL))
    )
    policies = [EfficiencyBand(e, round_hours=ROUND_HOURS) for e in SMALL.efficiencies]
    turned = compare_streams(case.stream, case.fleet, policies)
    for mine, other in zip(ratios([*fixed, *baseline]), turned.rows, strict=True):
        assert mine.mean_ratio == pytest.approx(other.ratio, rel=0.01)


def test_a_policy_costs_nothing_more_on_ideal_machines() -> None:
    ideal = [point(b, 30 / b, name, rows.MACHINES) for name in (rows.FIXED, "b") for b in (9, 50)]
    worse = [one._replace(machines="worse", mean_hours=one.mean_hours * 2) for one in ideal]
    found = costs([*ideal, *worse])
    assert {one.over_ideal for one in found if one.machines == "ideal machines"} == {1.0}
    assert all(one.over_ideal == pytest.approx(2.0) for one in found if one.machines == "worse")
    assert all(one.over_fixed == pytest.approx(1.0) for one in found)


@pytest.mark.parametrize(
    ("machines", "name"),
    [
        (IDEAL, "ideal machines"),
        (USUAL, "restart 30s, nodes of 4, 1m30s to come"),
        (Machines(node_gpus=8), "nodes of 8"),
    ],
)
def test_machines_say_what_is_not_ideal(machines: Machines, name: str) -> None:
    assert machines.name == name


def test_machines_reach_the_fleet(streams: list[Case]) -> None:
    case = streams[-1].on(USUAL)
    assert (case.fleet.node_gpus, case.fleet.provisioning_hours) == (4, USUAL.provisioning_hours)
    assert {one.restart_hours for one in (*case.classes, *case.elsewhere)} == {USUAL.restart_hours}
    assert case.load_gpus == streams[-1].load_gpus


@pytest.mark.parametrize(
    "machines", [Machines(node_gpus=0), Machines(restart_hours=-1.0), Machines(provisioning_hours=math.inf)]
)
def test_machines_that_cannot_be_meant_are_refused(machines: Machines) -> None:
    with pytest.raises(InputError, match="must be >="):
        reproduce(machines=machines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "speedups").mkdir()
    (tmp_path / "speedups" / SPEEDUPS).write_text(SPEEDUP_LINES)
    (tmp_path / "jobs" / "a.csv").write_text("time,application\n3600,bert\n0,ncf\n7200,bert\n")
    (tmp_path / "jobs" / "b.csv").write_text("time,application\n1800,ncf\n3600,bert\n")
    return tmp_path


def test_measured_classes_end_at_the_fastest_width(folder: Path) -> None:
    bert, ncf = measured_classes(folder / "speedups" / SPEEDUPS)
    assert (bert.name, bert.work_gpu_hours, bert.widths) == ("bert", 2.0, (1, 2))
    assert bert.job.speedup(2) == pytest.approx(1.8)
    assert ncf.widths == (1,)


def test_recorded_streams_are_sorted_and_have_their_own_rates(folder: Path) -> None:
    (first, second), notes = recorded_cases(folder, 5)
    assert first.stream.arrival_hours.tolist() == [0.0, 1.0, 2.0]
    assert [one.arrivals_per_hour for one in first.classes] == [1.0, 0.5]
    assert first.elsewhere == second.classes
    assert second.elsewhere == first.classes
    assert "bert 0 %" in notes[0]


def test_what_cannot_be_used_is_left_out_and_said(folder: Path) -> None:
    (folder / "jobs" / "c.csv").write_text("submit_s\n1\n")
    cases, notes = recorded_cases(folder, 1)
    assert [case.name for case in cases] == ["a"]
    assert any("c.csv:1: column 'time'" in note for note in notes)
    assert any("quick size: b" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("time,application\n1,gpt\n2,bert\n", "gpt"),
        ("time,application\nsoon,bert\n", ":2: must be a number"),
        ("time,application\n-1,bert\n", ":2: must be a number"),
        ("time,application\n1\n", "2 cells"),
        ("time,application\n1,bert\n", "two jobs or more"),
        ("", "column 'time'"),
    ],
)
def test_wrong_streams_are_refused_with_their_line(folder: Path, text: str, match: str) -> None:
    path = folder / "jobs" / "wrong.csv"
    path.write_text(text)
    with pytest.raises(FileError, match=match):
        recorded(path, measured_classes(folder / "speedups" / SPEEDUPS))


def test_folders_without_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACKTIDE_DATA", raising=False)
    assert recorded_cases(None, 3) == ([], [NO_DATA])
    with pytest.raises(InputError, match="nothing usable"):
        recorded_cases(tmp_path, 3)
    with pytest.raises(InputError, match="must exist"):
        recorded_cases(tmp_path / "nowhere", 3)
    monkeypatch.setenv("SLACKTIDE_DATA", str(tmp_path))  # it may hold markets only
    cases, notes = recorded_cases(None, 3)
    assert not cases
    assert notes[-1] == NO_DATA


def test_the_recorded_streams_can_all_be_used(real_data: Path) -> None:
    cases, notes = recorded_cases(real_data, 9)
    assert len(cases) == 5
    assert all(case.elsewhere for case in cases)
    assert {one.name for case in cases for one in case.classes} == {
        "bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3",
    }  # fmt: skip
    assert any("philly" in note for note in notes)
