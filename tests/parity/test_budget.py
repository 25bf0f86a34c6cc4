"""The optimum on a budget three ways: chords over prices = linear programme = enumeration of all paths."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from slacktide.budget.classes import JobClass, width_array
from slacktide.budget.frontier import frontier
from slacktide.budget.whole_widths import Hulls, find_hulls, find_paths, paths_of
from slacktide.budget.width_options import PhaseWidths, Weights, WidthChoice, rows_of
from slacktide.budget.widths import FleetPlan, least_budget_gpus, optimal_widths
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, Phase
from tests.oracles import budget_widths as reference

BATCHES = 10
PER_BATCH = 20


def speedup(rng: np.random.Generator) -> Speedup:
    """Draw a speedup of any kind; ties and widths that do not pay are among them."""
    kind = rng.integers(6)
    if kind == 0:
        return Amdahl(float(rng.choice([0.0, 0.5, 0.8, 0.95, 1.0])))
    if kind == 1:
        return Power(float(rng.choice([0.2, 0.5, 0.9, 1.0])))
    if kind == 2:
        return Linear(*((1.0, 0.0), (0.5, 0.5), (1.2, -0.2), (0.3, 0.0))[rng.integers(4)])
    rates = np.cumsum(rng.uniform(-0.2, 1.0, 4)).clip(0.3)
    return Table(tuple(zip((1.0, 2.0, 4.0, 8.0), rates.tolist(), strict=True)))


def job_class(rng: np.random.Generator, name: str, most_phases: int) -> JobClass:
    phases = int(rng.integers(1, most_phases + 1))
    shared = speedup(rng)
    return JobClass(
        arrivals_per_hour=float(rng.choice([0.1, 0.5, 1.0, 3.0])),
        job=Job(
            name=name,
            phases=tuple(
                Phase(float(rng.uniform(0.1, 2.0)), shared if rng.random() < 0.3 else speedup(rng))
                for _ in range(phases)
            ),
            restart_hours=float(rng.choice([0.0, 0.01, 0.1, 1.0])),
            widths=((1, 2, 3, 4), (1, 2, 4, 8), (2, 5), (3,), (1, 4, 6, 7))[rng.integers(5)],
        ),
    )


def fleet(rng: np.random.Generator, most_phases: int) -> list[JobClass]:
    return [job_class(rng, f"class {index}", most_phases) for index in range(rng.integers(1, 6))]


def budgets(rng: np.random.Generator, classes: Sequence[JobClass]) -> list[float]:
    """Return budgets from the least feasible to one beyond use."""
    least = least_budget_gpus(classes)
    return [least, *(least * (1.0 + rng.exponential(0.5, 3))).tolist(), 50.0 * least]


def takes(each: JobClass, widths: Sequence[float]) -> tuple[float, float]:
    """Return the hours and GPU-hours of one way through the phases, by definition."""
    hours = gpu_hours = 0.0
    for index, (phase, width) in enumerate(zip(each.phases, widths, strict=True)):
        pause = each.restart_hours if index == 0 or widths[index - 1] != width else 0.0
        spent = pause + phase.work_gpu_hours / phase.speedup(width)
        hours, gpu_hours = hours + spent, gpu_hours + width * spent
    return hours, gpu_hours


def check_plan(plan: FleetPlan) -> None:
    """Hold a plan against the definition: shares, sums, one mixed class at most, the budget met."""
    assert sum(len(each.paths) > 1 for each in plan.classes) <= 1
    arrivals = sum(each.arrivals_per_hour for each in plan.job_classes)
    jobs = gpus = 0.0
    for found, each in zip(plan.classes, plan.job_classes, strict=True):
        assert found.name == each.name
        assert math.fsum(path.share for path in found.paths) == pytest.approx(1.0)
        for path in found.paths:
            assert 0.0 < path.share <= 1.0
            assert set(path.widths) <= set(each.widths)
            assert (path.response_hours, path.gpu_hours) == pytest.approx(takes(each, path.widths), rel=1e-10)
            jobs += each.arrivals_per_hour * path.share * path.response_hours
            gpus += each.arrivals_per_hour * path.share * path.gpu_hours
    assert plan.mean_response_hours == pytest.approx(jobs / arrivals, rel=1e-12)
    assert plan.average_gpus == pytest.approx(gpus, rel=1e-11)
    assert plan.average_gpus <= plan.budget_gpus
    if plan.shadow_price_hours_per_gpu > 0:
        assert plan.average_gpus == pytest.approx(plan.budget_gpus, rel=1e-11)


def enumerated(classes: Sequence[JobClass], budget: float) -> float:
    """Return the least mean response over all mixes of all paths, by the best of all Lagrangian bounds.

    The bound is concave and bends only at prices at which two paths of a class cost the same.
    """
    arrivals = np.array([each.arrivals_per_hour for each in classes])
    points = [
        np.array([takes(each, path) for path in product(each.widths, repeat=len(each.phases))])
        for each in classes
    ]
    prices = [np.zeros(1)]
    for hours, gpu_hours in (each.T for each in points):
        fewer, more = hours[:, None] - hours, gpu_hours - gpu_hours[:, None]
        # Linear speedups cost as many GPU-hours at any width, but for rounding.
        apart = (more > 1e-9 * gpu_hours) & (fewer > 0)
        prices.append(fewer[apart] / more[apart])
    price = np.concatenate(prices)
    bound = -price * budget
    for rate, each in zip(arrivals, points, strict=True):
        bound += rate * (each[:, :1] + price * each[:, 1:]).min(axis=0)
    return float(bound.max() / arrivals.sum())


@pytest.mark.parametrize("batch", range(BATCHES))
def test_solver_equals_the_linear_programme(batch: int) -> None:
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        rng = np.random.default_rng(seed)
        classes = fleet(rng, most_phases=1 if seed % 2 else 5)
        for budget in budgets(rng, classes):
            plan, other = optimal_widths(classes, budget), reference.solve(classes, budget * (1.0 + 1e-12))
            check_plan(plan)
            assert plan.mean_response_hours == pytest.approx(other.mean_response_hours, rel=1e-7), seed


@pytest.mark.parametrize("batch", range(BATCHES))
def test_solver_equals_enumeration(batch: int) -> None:
    for seed in range(1000 + batch * PER_BATCH, 1000 + (batch + 1) * PER_BATCH):
        rng = np.random.default_rng(seed)
        classes = fleet(rng, most_phases=3)
        corners = frontier(classes)
        for budget in budgets(rng, classes):
            best = enumerated(classes, budget)
            for plan in (optimal_widths(classes, budget), corners.plan_at(budget)):
                check_plan(plan)
                assert plan.mean_response_hours == pytest.approx(best, rel=1e-10), seed


def test_the_shadow_price_is_the_dual_of_the_budget() -> None:
    for seed in range(2000, 2030):
        rng = np.random.default_rng(seed)
        classes = fleet(rng, most_phases=4)
        found = frontier(classes)
        for left, right in zip(found.budget_gpus[:-1:3], found.budget_gpus[1::3], strict=False):
            inside = float(0.7 * left + 0.3 * right)
            if right - left < 1e-6 * right:
                continue  # HiGHS meets its rows to 1e-7 only
            plan, other = optimal_widths(classes, inside), reference.solve(classes, inside)
            assert plan.shadow_price_hours_per_gpu == pytest.approx(
                other.shadow_price_hours_per_gpu, rel=1e-5
            ), seed


def test_compiled_paths_are_the_plain_ones() -> None:
    for seed in range(3000, 3020):
        rng = np.random.default_rng(seed)
        classes = [
            each for each in fleet(rng, most_phases=5) if len(each.phases) > 1 and each.restart_hours > 0
        ]
        if not classes:
            continue
        paths = paths_of(classes)
        for weights in (Weights(0.0, 1.0), Weights(1.0, 0.0), Weights(1.0, 0.3), Weights(1.0, 2.0)):
            plain = WidthChoice(
                *(np.empty(size) for size in (len(classes), len(classes), paths.first_row[-1]))
            )
            find_paths(paths.rows, paths.first_row, paths.restart_hours, weights, paths.scratch, plain)
            found = paths.cheapest(weights.hour, weights.gpu_hour)
            for mine, other in zip(found, plain, strict=True):
                assert mine.tolist() == other.tolist()


def test_compiled_hulls_are_the_plain_ones() -> None:
    rng = np.random.default_rng(4000)
    widths = width_array(tuple(range(1, 20)))
    rows = rows_of([PhaseWidths("any", Phase(1.0, speedup(rng)), widths) for _ in range(60)])
    hulls = Hulls.of(rows)
    corners, counts = np.empty(len(rows.hours), dtype=np.int64), np.empty(60, dtype=np.int64)
    find_hulls(rows, corners, counts)
    assert np.diff(hulls.start).tolist() == counts.tolist()
    assert hulls.widths.tolist() == rows.widths[corners[: counts.sum()]].tolist()


def measured(path: Path) -> list[JobClass]:
    """Read the six applications of Pollux on one kind of machine: time to target against GPUs."""
    points: dict[str, dict[int, float]] = {}
    alone_s: dict[str, float] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["hw"] == "aws":
                points.setdefault(row["app"], {})[int(row["n_gpus"])] = float(row["tta_speedup"])
                if row["n_gpus"] == "1":
                    alone_s[row["app"]] = float(row["time_to_target_s"])
    return [
        JobClass(
            Job(
                name=app,
                work_gpu_hours=alone_s[app] / 3600.0,
                speedup=Table.of(points[app]),
                widths=tuple(range(1, 65)),
            ),
            arrivals_per_hour=1.0 / rank,
        )
        for rank, app in enumerate(sorted(points), start=1)
    ]


def test_measured_applications_reach_the_bound(real_data: Path) -> None:
    classes = measured(real_data / "speedups" / "pollux-sia-time-to-target.csv")
    assert len(classes) == 6
    found = frontier(classes)
    for budget in np.geomspace(found.budget_gpus[0] * 1.001, found.budget_gpus[-1], 12).tolist():
        plan = optimal_widths(classes, budget)
        check_plan(plan)
        assert plan.mean_response_hours <= reference.solve(classes, budget).mean_response_hours * (1 + 1e-6)
        assert plan.mean_response_hours <= enumerated(classes, budget) * (1 + 1e-10)
