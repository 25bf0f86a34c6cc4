"""Allocators on a market: who gets spot, who rents on demand, and on which width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.patient_spot import PatientSpot
from slacktide.allocators.view import AnyAllocator, needs_market
from slacktide.budget.classes import JobClass, Member
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.errors import InputError
from slacktide.core.speedup import Linear, Power
from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.results.fleet import FleetRun, HeldStretches
from slacktide.simulation.fleet.run import RunOptions, run_events, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from slacktide_papers.baselines.each_alone import EachAlone
from slacktide_papers.baselines.earliest_deadline import EarliestDeadline
from slacktide_papers.baselines.on_demand_widths import OnDemandWidths
from tests import build

EVERY: tuple[AnyAllocator, ...] = (PatientSpot(), EachAlone(), EarliestDeadline(), OnDemandWidths())


def pool(*spot_gpus: int, name: str = "zone", on_demand_usd: float = 10.0) -> Pool:
    """Return a pool with slots of an hour that offers this spot at 1 USD."""
    count = len(spot_gpus)
    return build.pool(1.0, np.full(count, on_demand_usd), spot_gpus, name=name, slot_hours=1.0)


def members(job: Job, *jobs: tuple[float, float, float]) -> tuple[Member, ...]:
    """Return jobs that come at some hours, with some work, due so long after that."""
    return tuple(Member(hours, job, work, due) for hours, work, due in jobs)


def run(market: Pool | Market, jobs: tuple[Member, ...], allocator: AnyAllocator) -> FleetRun:
    """Run jobs on a market."""
    market = market if isinstance(market, Market) else Market((market,))
    return run_fleet(FleetScene(market, jobs), allocator, RunOptions(keep=True))


def held(found: FleetRun) -> HeldStretches:
    """Return all that was held."""
    assert found.held is not None
    return found.held


def widths(found: FleetRun, job: int) -> list[tuple[int, int]]:
    """Return the spot and on-demand GPUs that a job held, stretch by stretch."""
    rows = held(found)
    mine = rows.job == job
    return list(zip(rows.spot_gpus[mine].tolist(), rows.on_demand_gpus[mine].tolist(), strict=True))


SQRT = Job(work_gpu_hours=1.0, speedup=Power(0.5), widths=tuple(range(1, 17)))
FLAT = Job(work_gpu_hours=1.0, speedup=Linear(), widths=(1, 2, 4))


@pytest.mark.parametrize(("usd_per_job_hour", "gpus"), [(10.0, 1), (40.0, 4), (90.0, 9)])
def test_the_width_on_demand_is_the_one_that_is_worth_its_time(usd_per_job_hour: float, gpus: int) -> None:
    found = run(pool(5, 5, 5), members(SQRT, (0.0, 1.0, math.inf)), OnDemandWidths(usd_per_job_hour))
    assert widths(found, 0) == [(0, gpus)]
    assert found.spent_usd == pytest.approx(10.0 * gpus / math.sqrt(gpus))


def test_the_restart_counts_in_what_a_width_is_worth() -> None:
    """At 10 USD an hour of waiting and 10 per GPU-hour: 2.2, 1.8 and 1.75 times 10 on 1, 2 and 4 GPUs."""
    job = Job(work_gpu_hours=1.0, speedup=Linear(), widths=(1, 2, 4), restart_hours=0.1)
    found = run(pool(0, 0), members(job, (0.0, 1.0, math.inf)), OnDemandWidths(10.0))
    assert widths(found, 0) == [(0, 4)]


def test_a_width_on_demand_is_kept_when_prices_change() -> None:
    usd = np.array([10.0, 90.0, 90.0, 1.0])
    market = build.pool(1.0, usd, 0, name="zone", slot_hours=1.0)
    found = run(market, members(SQRT, (0.0, 6.0, math.inf)), OnDemandWidths(40.0))
    assert set(widths(found, 0)) == {(0, 4)}


def test_a_job_with_a_deadline_gets_the_cheapest_pool_and_width_in_time() -> None:
    market = Market((pool(0, 0, 0), pool(0, 0, 0, name="cheap", on_demand_usd=4.0)))
    found = run(market, members(SQRT, (0.0, 3.0, 2.0)), OnDemandWidths(0.0))
    assert widths(found, 0)[0] == (0, 3)
    assert set(held(found).pool) == {1}
    assert found.finish_hours[0] == pytest.approx(math.sqrt(3.0))


def test_the_earliest_deadline_takes_spot_from_who_has_none() -> None:
    jobs = members(FLAT, (0.0, 20.0, math.inf), (1.5, 4.0, 6.0))
    found = run(pool(*[4] * 20), jobs, EarliestDeadline(width=4))
    rows = held(found)
    assert widths(found, 1) == [(4, 0), (4, 0)]
    assert not len(found.late)
    away = (rows.job == 0) & (rows.from_hours >= 1.5) & (rows.to_hours <= 2.5)
    assert not away.any()


def test_of_two_deadlines_the_earlier_one_is_served_first() -> None:
    jobs = members(FLAT, (0.0, 8.0, 30.0), (0.0, 8.0, 10.0))
    found = run(pool(*[4] * 40), jobs, EarliestDeadline(width=4))
    assert found.finish_hours.tolist() == [4.0, 2.0]


def test_who_comes_first_keeps_spot_where_each_job_is_alone() -> None:
    jobs = members(FLAT, (0.0, 8.0, math.inf), (0.5, 8.0, math.inf))
    found = run(pool(*[4] * 40), jobs, EachAlone(width=4))
    assert found.finish_hours.tolist() == [2.0, 4.0]
    assert not found.on_demand_usd.any()


def test_a_job_alone_without_spot_rents_on_demand_once_it_is_behind_the_line() -> None:
    found = run(pool(*[0] * 20), members(FLAT, (0.0, 4.0, 10.0)), EachAlone())
    first = held(found).from_hours[0]
    assert 0.0 < first <= 1.0
    assert found.finish_hours[0] <= 10.0
    assert {spot for spot, _ in widths(found, 0)} == {0}


def test_a_job_alone_waits_for_spot_without_a_deadline() -> None:
    found = run(pool(0, 0, 0, 2, 2, 2), members(FLAT, (0.0, 4.0, math.inf)), EachAlone())
    assert found.finish_hours[0] == pytest.approx(5.0)
    assert found.on_demand_usd[0] == 0.0


def test_a_job_that_may_only_be_wide_is_served_though_others_are_narrow() -> None:
    wide = Job(work_gpu_hours=16.0, speedup=Linear(), widths=(16,))
    for allocator in (PatientSpot(2), EachAlone(2), EarliestDeadline(2)):
        found = run(pool(*[16] * 9), members(wide, (0.0, 16.0, math.inf)), allocator)
        assert found.finish_hours[0] == pytest.approx(1.0)


def test_spot_that_is_left_is_no_width_of_its_own() -> None:
    """A pool that takes one of four GPUs back leaves three, and the job goes on with two."""
    for allocator in (PatientSpot(4), EachAlone(4), EarliestDeadline(4)):
        found = run(pool(4, 3, 3, 3, 3), members(FLAT, (0.0, 8.0, math.inf)), allocator)
        assert widths(found, 0) == [(4, 0), (2, 0), (2, 0)]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"each-alone": {"width": 0}}, "width must be >= 1"),
        ({"earliest-deadline": {"width": 0}}, "width must be >= 1"),
        ({"on-demand-widths": {"usd_per_job_hour": -1.0}}, "usd_per_job_hour must be >= 0"),
        ({"patient-spot": {"wait_hours": -1.0}}, "wait_hours must be >= 0"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(parameters: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        allocators.make(parameters)


@pytest.mark.parametrize("allocator", EVERY, ids=lambda one: type(one).__name__)
def test_without_a_market_they_say_what_is_missing(allocator: AnyAllocator) -> None:
    assert needs_market(allocator)
    fleet = Fleet((JobClass(FLAT, 1.0),))
    stream = Stream(np.array([0.0]), np.array([0]), np.array([1.0]))
    with pytest.raises(InputError, match="must be given a market"):
        run_events(stream, fleet, allocator)
