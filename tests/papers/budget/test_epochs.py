"""BOA Constrictor's setting: how jobs are drawn, what is compared at which bills, nobody below the bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slacktide_papers.budget import rows
from slacktide_papers.budget.applications import BY_APPLICATION, HALF_MINUTE, NO_RESTARTS, PHASES
from slacktide_papers.budget.cases import QUICK, Case
from slacktide_papers.budget.epochs import (
    DRAWN_JOBS,
    applications,
    drawn_case,
    epoch_cases,
    epoch_tasks,
    per_application,
    said_of_phases,
    shared_out,
)
from slacktide_papers.budget.equal import EPOCH_MULTIPLES, contests, ratios_at
from slacktide_papers.budget.experiments import do_group
from slacktide_papers.budget.fleets import TRAINING_CLASSES
from slacktide_papers.budget.rows import Point
from slacktide_papers.budget.traces import recorded_cases

SMALL = QUICK._replace(budgets=6, widths=(1, 4, 16), draws=1, targets=(0.7, 0.45, 0.25))


@pytest.fixture(scope="module")
def case() -> Case:
    return drawn_case(applications([]), 0, seed=3)


@pytest.fixture(scope="module")
def points(case: Case) -> list[Point]:
    tasks = epoch_tasks([case], SMALL)
    return [
        do_group(tasks, (number, at))
        for number, (_, _, family) in enumerate(tasks)
        for at in range(len(family.groups))
    ]


def test_draws_have_one_mix_and_times_of_their_own(case: Case) -> None:
    other = drawn_case(applications([]), 1, seed=3)
    assert len(case.stream) == DRAWN_JOBS
    counts = np.bincount(case.stream.class_index)
    assert dict(zip([one.name for one in case.classes], counts.tolist(), strict=True)) == {
        "recommender": 17, "small vision": 36, "large vision": 1, "speech": 13, "detection": 3,
        "language": 15,
    }  # fmt: skip
    assert (np.bincount(other.stream.class_index) == counts).all()
    assert other.stream.hours != case.stream.hours
    assert drawn_case(applications([]), 0, seed=3).stream.hours == case.stream.hours


def test_shares_are_whole_and_add_up() -> None:
    assert shared_out(np.array([1.0, 1.0, 1.0]), 7).tolist() == [3, 2, 2]
    assert shared_out(np.array([0.5, 2.5]), 6).tolist() == [1, 5]


def test_classes_have_phases_and_restarts_of_their_own(case: Case) -> None:
    assert {len(one.phases) for one in case.classes} == {PHASES}
    assert len({one.restart_hours for one in case.classes}) == len(case.classes)
    assert case.machines.name == "restarts of 15s to 5m by application, nodes of 4"
    assert {one.restart_hours for one in case.on(HALF_MINUTE).classes} == {30 / 3600}


def test_one_width_per_application_does_not_change_with_the_phase(case: Case) -> None:
    family = per_application(case, SMALL)
    for (one,) in family.groups:
        ways = one.policy.ways  # type: ignore[union-attr]
        assert (np.ptp(ways.narrow.reshape(-1, PHASES), axis=1) == 0).all()
        assert (np.ptp(ways.wide.reshape(-1, PHASES), axis=1) == 0).all()


def test_nobody_is_below_the_bound(points: list[Point]) -> None:
    assert min(one.over_bound for one in points) >= 1 - 1e-9


def test_all_are_compared_at_the_same_bills(points: list[Point]) -> None:
    found = ratios_at(points)
    assert {round(one.load_multiple, 9) for one in found} <= set(EPOCH_MULTIPLES)
    lines = {(one.series, one.machines): one.median for one in contests(found, rows.EPOCHS)}
    assert set(lines) == {
        *((series, BY_APPLICATION.name) for series in (
            rows.AS_PUBLISHED, rows.SPEEDUPS_KNOWN, rows.RESTARTS_KNOWN, rows.PER_APPLICATION, rows.ONE_WIDTH,
            rows.EQUI,
        )),
        (rows.RESTARTS_KNOWN, HALF_MINUTE.name),
        (rows.AS_PUBLISHED, NO_RESTARTS.name),
        (rows.RESTARTS_KNOWN, NO_RESTARTS.name),
    }  # fmt: skip
    assert lines[rows.AS_PUBLISHED, NO_RESTARTS.name] < lines[rows.AS_PUBLISHED, BY_APPLICATION.name]
    assert lines[rows.RESTARTS_KNOWN, BY_APPLICATION.name] < lines[rows.AS_PUBLISHED, BY_APPLICATION.name]


def test_a_ratio_at_a_bill_is_read_between_runs() -> None:
    blank = Point(rows.EPOCHS, "p", "m", "a", "k", 0.0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1)

    def point(series: str, gpus: float, hours: float) -> Point:
        return blank._replace(
            series=series, average_gpus=gpus, load_multiple=gpus / 10, mean_hours=hours,
            p95_hours=hours, bound_hours=10 / gpus,
        )  # fmt: skip

    fixed = [point(rows.FIXED, gpus, 10 / gpus) for gpus in (10, 20, 40)]
    mine = [point("b", gpus, 15 / gpus) for gpus in (10, 20, 40)]
    (only,) = ratios_at([*fixed, *mine], (2.0,))
    assert (only.series, only.average_gpus, only.load_multiple) == ("b", 20.0, 2.0)
    assert only.mean_ratio == pytest.approx(1.5)
    assert ratios_at([*fixed, *mine], (0.5, 9.0)) == []


def test_without_recorded_streams_jobs_are_synthetic() -> None:
    assert {one.name for one in applications([])} == {one.name for one in TRAINING_CLASSES}
    assert [case.name for case in epoch_cases([], SMALL, 0)] == ["85 jobs, draw 1"]
    said = said_of_phases(applications([]))
    assert "drawn from these applications: recommender" in said
    assert "assumed, not measured. Restarts take 15, 27, 50, 91, 165 and 300 s, by model size" in said
    assert "60 % of what is lost" in said


def test_recorded_streams_take_part_with_their_first_jobs(real_data: Path) -> None:
    recorded, _ = recorded_cases(real_data, 8)
    first, *others = epoch_cases(recorded, SMALL, 0)
    assert {one.name for one in first.classes} == {one.name for case in recorded for one in case.classes}
    assert [case.name for case in others] == [case.name for case in recorded]
    assert {len(case.stream) for case in others} == {SMALL.recorded_jobs}
    for case in others:
        assert sum(one.arrivals_per_hour for one in case.classes) * case.stream.hours == pytest.approx(
            SMALL.recorded_jobs
        )
