"""The bound below a fleet's response: under the best allocation, concave, and one source at two speeds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slacktide.core.compiled import compiled
from slacktide.core.errors import InfeasibleError, InputError
from slacktide_papers.fleet_bound import programme
from slacktide_papers.fleet_bound.climb import Climb, bound_below
from slacktide_papers.fleet_bound.dual import Dual
from slacktide_papers.fleet_bound.families import families
from slacktide_papers.fleet_bound.problem import Demand, Future, Problem, Shapes, trivial_hours
from tests.oracles.fleet_brute import TinyJob, best_mean_hours

SLOT = 0.5
RATE = {1: 1.0, 2: 1.8}


def problem(
    jobs: list[TinyJob],
    spot_usd: list[float],
    on_demand_usd: float,
    gpus: list[int],
    came: list[float] | None = None,
) -> Problem:
    """Return tiny jobs as the bound reads them, one kind each; after the last slot on demand is left."""
    slots, widest = len(gpus), max(max(job.rate) for job in jobs)
    rate = np.zeros((len(jobs), 1, widest + 1))
    for kind, job in enumerate(jobs):
        rate[kind, 0, list(job.rate)] = list(job.rate.values())
    restart = np.array([job.restart for job in jobs])
    future = Future(
        SLOT,
        np.array(spot_usd)[:, None],
        np.full((slots, 1), on_demand_usd),
        np.array(gpus, dtype=np.int64)[:, None],
        np.array([on_demand_usd]),
    )
    submitted = np.zeros(len(jobs)) if came is None else np.array(came)
    demand = Demand(
        np.arange(len(jobs)),
        np.array([job.work for job in jobs]),
        submitted,
        np.array([job.due for job in jobs]),
        np.ones(len(jobs)),
    )
    return Problem(future, Shapes(rate, restart, restart), demand)


def tiny(seed: int, slots: int = 4) -> tuple[list[TinyJob], list[float], float, list[int]]:
    """Draw two jobs, the second often with a deadline, and a market on which both can be done."""
    rng = np.random.default_rng(seed)
    restart = float(rng.choice([0.0, 0.1, 0.3, 0.6]))
    jobs = [TinyJob(float(rng.uniform(0.1, 0.27) * slots), RATE, restart) for _ in range(2)]
    if rng.random() < 0.6:
        soonest = restart + jobs[1].work / RATE[2]
        due = float(rng.uniform(soonest, slots * SLOT)) if soonest < slots * SLOT else math.inf
        jobs[1] = TinyJob(jobs[1].work, RATE, restart, due)
    return jobs, rng.uniform(0.5, 2.0, slots).tolist(), 4.0, rng.integers(0, 4, slots).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_no_allocation_of_a_tiny_fleet_is_below_the_bound(seed: int) -> None:
    jobs, spot, on_demand, gpus = tiny(seed)
    climb = Climb(problem(jobs, spot, on_demand, gpus))
    for budget in (2.0, 4.0, 8.0, 40.0):
        best = best_mean_hours(jobs, SLOT, spot, on_demand, gpus, budget)
        assert climb.bound(budget, 15).mean_response_hours <= best + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_nor_is_one_with_decisions_inside_slots(seed: int) -> None:
    jobs, spot, on_demand, gpus = tiny(seed + 100, 2)
    climb = Climb(problem(jobs, spot, on_demand, gpus))
    halves, there = np.repeat(spot, 2).tolist(), np.repeat(gpus, 2).tolist()
    for budget in (1.5, 2.5, 4.0):
        best = best_mean_hours(jobs, SLOT / 2, halves, on_demand, there, budget)
        assert climb.bound(budget, 15).mean_response_hours <= best + 1e-9


def test_the_bound_of_one_job_is_what_it_takes() -> None:
    job = TinyJob(1.0, RATE, 0.1)
    found = bound_below(problem([job], [1.0] * 8, 4.0, [2] * 8), 100.0)
    assert found.mean_response_hours == pytest.approx(0.1 + 1.0 / 1.8)
    # On one GPU it costs 1.1 USD and takes 1.1 h, on two 1.31 USD and 0.66 h; between is a line.
    two_usd, two_hours = 2 * (0.1 + 1 / 1.8), 0.1 + 1 / 1.8
    share = (1.2 - 1.1) / (two_usd - 1.1)
    found = bound_below(problem([job], [1.0] * 8, 4.0, [2] * 8), 1.2)
    line = 1.1 + share * (two_hours - 1.1)
    assert 0.97 * line <= found.mean_response_hours <= line


def test_scarce_spot_lifts_the_bound() -> None:
    jobs = [TinyJob(1.0, RATE, 0.0) for _ in range(2)]
    wide, narrow = (bound_below(problem(jobs, [1.0] * 12, 40.0, [gpus] * 12), 6.0) for gpus in (4, 1))
    assert wide.mean_response_hours == pytest.approx(1.0 / 1.8, rel=1e-3)
    # One GPU for both: a second job waits for the first.
    assert narrow.mean_response_hours > 1.2
    assert narrow.scarcity.max() > 0.5


@pytest.mark.parametrize("seed", range(6))
def test_what_plans_hold_is_the_slope_of_what_they_cost(seed: int) -> None:
    jobs, spot, on_demand, gpus = tiny(seed, 8)
    came = [0.2, 0.0]
    dual = Dual(problem(jobs, spot, on_demand, gpus, came), cells=60, blocks=1)
    rng = np.random.default_rng(seed)
    points = [(float(rng.uniform(0.05, 1.0)), rng.uniform(0.0, 0.4, (8, 1))) for _ in range(6)]
    answers = [dual.answer(*point) for point in points]
    for (money, rent), answer in zip(points, answers, strict=True):
        for (other, rents), there in zip(points, answers, strict=True):
            slope = answer.spent_usd * (other - money) + (answer.spot_gpu_hours * (rents - rent)).sum()
            assert there.hours.sum() <= (answer.hours + slope).sum() * (1 + 1e-4) + 1e-9


def test_finer_cells_change_little() -> None:
    jobs, spot, on_demand, gpus = tiny(3, 8)
    what = problem(jobs, spot, on_demand, gpus, [0.2, 0.0])
    rent = np.full((8, 1), 0.1)
    coarse, fine = (Dual(what, cells=cells).answer(0.3, rent).hours.sum() for cells in (60, 600))
    assert coarse == pytest.approx(fine, rel=0.03)


def test_plain_and_compiled_programmes_are_the_same() -> None:
    jobs, spot, on_demand, gpus = tiny(5)
    what = problem(jobs, spot, on_demand, gpus)
    for family, starts in families(what, 12):
        slots, holdings = len(family.hours), len(family.pool)
        cost, taken = np.zeros((slots, holdings)), np.zeros((slots, holdings), dtype=np.int64)
        programme.price_holdings(
            family, what.future.spot_usd, what.future.on_demand_usd, what.future.spot_gpus, cost, taken
        )
        both = []
        twins: tuple[Callable[..., Any], ...] = (lambda fn: fn, compiled)
        for twin in twins:
            least = twin(programme.least_prices)(family, cost, 4.0)
            kept = np.zeros((slots + 1, 2, holdings, family.cells), dtype=np.float32)
            values, offs, ways = np.zeros(1), np.zeros(1), np.zeros((1, 4), dtype=np.int64)
            twin(programme.sweep)(family, starts, cost, 4.0, least, kept, values, offs, ways)
            both.append((values, offs, ways, kept))
        for one, other in zip(*both, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_deadline_out_of_reach_is_said() -> None:
    jobs = [TinyJob(1.0, RATE, 0.1), TinyJob(1.0, RATE, 0.1, due=0.4)]
    with pytest.raises(InfeasibleError, match="job 1"):
        bound_below(problem(jobs, [1.0] * 4, 4.0, [2] * 4), 10.0)


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(InputError, match=r"slacktide\[bound\]"):
        bound_below(problem([TinyJob(1.0, RATE, 0.1)], [1.0] * 4, 4.0, [2] * 4), 2.0)


def test_a_budget_must_be_money() -> None:
    with pytest.raises(InputError, match="budget_usd"):
        bound_below(problem([TinyJob(1.0, RATE, 0.1)], [1.0] * 4, 4.0, [2] * 4), 0.0)


def test_the_trivial_bound_is_the_fastest_width_from_the_start() -> None:
    what = problem([TinyJob(1.8, RATE, 0.1), TinyJob(0.9, RATE, 0.1)], [1.0] * 4, 4.0, [2] * 4)
    assert trivial_hours(what) == pytest.approx(0.1 + 0.75)
