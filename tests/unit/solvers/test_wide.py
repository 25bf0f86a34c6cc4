"""The clairvoyant of wide jobs: bounded in time, a real plan, and honest about what it leaves open."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Linear, Power
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.market.source import open_market
from slacktide.simulation.batch import run_in_detail
from slacktide.solvers.clairvoyant.clairvoyant import (
    clairvoyant,
    effort_s,
    fits,
    yardstick,
)
from slacktide.solvers.clairvoyant.frame import frame
from slacktide.solvers.clairvoyant.holdings import (
    all_holdings,
    count_all,
    holdings_within,
    levels_of,
    some_holdings,
)
from slacktide.solvers.clairvoyant.wide import WideSolver
from tests import build

MARKET = open_market("synthetic:volatile?days=4&seed=5&slot=30m").pools[0]


def larger(pool: Pool, factor: int) -> Pool:
    """Return a pool that offers that many times the spot GPUs, with all numbers between."""
    extra = np.random.default_rng(1).integers(0, factor, len(pool))
    return dataclasses.replace(
        pool, spot_gpus=pool.spot_gpus * factor + np.where(pool.spot_gpus > 0, extra, 0)
    )


def wide(widest: int, **changes: object) -> Job:
    speedup = changes.pop("speedup", Amdahl(0.97))
    assert isinstance(speedup, Amdahl | Power | Linear)
    deadline = 16.0
    given: dict[str, object] = {
        "widths": tuple(range(1, widest + 1)),
        "work_gpu_hours": 0.5 * deadline * speedup(widest),
        "deadline_hours": deadline,
        "speedup": speedup,
        "restart_hours": 0.1,
    }
    return build.job(**{**given, **changes})


CASES = {
    "hard": wide(12),
    "shrink": wide(12, shrink_hours=0.05),
    "long restart": wide(12, restart_hours=0.7, shrink_hours=0.6),
    "whole slots": wide(12, billing="slot"),
    "linear": wide(12, speedup=Linear()),
    "power, tight": wide(12, speedup=Power(0.8), work_gpu_hours=0.9 * 15 * 12**0.8),
    "soft": wide(12, value_usd=500.0, worthless_after_hours=24.0),
    "soft, worth little": wide(12, value_usd=20.0, worthless_after_hours=20.0),
    "some widths": wide(12, widths=(1, 2, 4, 8, 12)),
    "no restart": wide(12, restart_hours=0.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("effort", [10.0, 1e-4], ids=["all holdings", "some holdings"])
def test_the_exact_optimum_lies_between_the_plan_and_its_bound(name: str, effort: float) -> None:
    job = CASES[name]
    solver = WideSolver(job, MARKET, effort)
    assert solver.complete == (effort > 1)
    for start in (0, 37):
        exact, found = clairvoyant(job, MARKET, start), solver.solve(start)
        utility = job.value_at(found.row[1]) - found.row[0]
        scale = 1e-3 * exact.cost_usd  # what the grid itself may miss
        assert utility <= exact.utility_usd + scale
        assert utility + found.spare_usd >= exact.utility_usd - 1e-6
        assert exact.on_time <= job.on_time(found.row[1]) or not job.hard


def test_without_restarts_the_bound_is_met_almost() -> None:
    solver = WideSolver(wide(12, restart_hours=0.0), MARKET, 10.0)
    found = solver.solve(0)
    assert found.spare_usd < 2e-2 * found.row[0]


@pytest.mark.parametrize("widest", [64, 100, 1000])
def test_widths_of_64_to_1000_in_the_clairvoyant(widest: int) -> None:
    job, pool = wide(widest, shrink_hours=0.05), larger(MARKET, max(1, widest // 12))
    starts = [0, 20, 40]
    found = yardstick(job, pool, starts, among=24)
    assert found.spare_usd is not None
    assert (found.spare_usd >= 0).all()
    assert (found.spare_usd < 0.2 * found.table[:, 0]).all()
    assert (found.table[:, 1] <= job.deadline_hours + 1e-6).all()


def test_a_plan_of_a_wide_job_is_one_that_can_be_carried_out() -> None:
    job, pool = wide(100), larger(MARKET, 8)
    plan = clairvoyant(job, pool, 5)
    run = run_in_detail(job, pool, None, 5, name="clairvoyant")
    assert plan.spare_usd is not None
    assert not plan.exact
    assert run.cost_usd == pytest.approx(plan.cost_usd, rel=1e-9)
    assert run.on_time


def test_one_start_among_many_is_solved_like_all_of_them() -> None:
    job, pool = wide(100), larger(MARKET, 8)
    found = yardstick(job, pool, [3, 9], among=24)
    assert found.spare_usd is not None
    one = clairvoyant(job, pool, 9, among=24)
    assert one.cost_usd == found.table[1, 0]
    assert one.spare_usd == found.spare_usd[1]


def test_narrow_jobs_are_solved_on_the_grid_however_many_starts() -> None:
    job = wide(8)
    assert fits(job, MARKET.slot_hours, 1e-3, effort_s(100_000))
    found = yardstick(job, MARKET, range(20))
    assert found.spare_usd is None
    assert (found.table == yardstick(job, MARKET, list(range(20))).table).all()


def test_progress_is_told_start_by_start() -> None:
    told: list[int] = []
    yardstick(wide(100), MARKET, [0, 1, 2], report=told.append)
    assert told == [1, 2, 3]
    told.clear()
    yardstick(wide(4), MARKET, range(40), report=told.append)
    assert told == [16, 32, 40]


def test_a_deadline_that_cannot_be_met_leaves_nothing_open() -> None:
    job = wide(100, work_gpu_hours=1e4)
    plan = clairvoyant(job, MARKET, 0)
    assert not plan.on_time
    assert plan.spare_usd == 0.0
    assert (plan.on_demand_gpus == 100).all()


def test_holdings_keep_to_the_offer_and_to_the_allowed_widths() -> None:
    job = wide(100, widths=tuple(range(3, 101)))
    for holdings in (all_holdings(job, 16), some_holdings(job, 100, 16, 8)):
        widths = holdings.spot + holdings.on_demand
        assert (holdings.spot[0], holdings.on_demand[0]) == (0, 0)
        assert holdings.spot.max() == 16
        assert set(widths[1:].tolist()) <= set(job.widths)
        assert 100 in widths
    assert len(all_holdings(job, 16).spot) == count_all(job, 16)
    assert len(holdings_within(job, 100, 16, 200).spot) <= 200


def test_levels_find_every_holding_again() -> None:
    holdings = some_holdings(wide(50), 50, 40, 6)
    levels = levels_of(holdings, 50)
    assert (levels.spot[levels.of_spot] == holdings.spot).all()
    assert (levels.on_demand[levels.of_on_demand] == holdings.on_demand).all()
    assert all(levels.spot[levels.below[gpus]] <= gpus for gpus in range(51))


def test_a_restart_of_thousands_of_slots_is_refused_before_it_takes_memory() -> None:
    job = wide(4, restart_hours=2000.0, deadline_hours=4000.0)
    with pytest.raises(InputError, match="restart must last at most 1000 slots"):
        frame(job, MARKET.slot_hours, 1e-3)
