"""The bound for scenes of the simulator: no run is below it at what it spends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slacktide.allocators.patient_spot import PatientSpot
from slacktide.budget.classes import Member
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.simulation.fleet.run import run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from slacktide_papers.fleet_bound.problem import trivial_hours
from slacktide_papers.fleet_bound.scenes import fleet_bound, fleet_bounds, problem_of
from tests import build
from tests.unit.simulation.test_fleet_run import scene

SETTINGS = (PatientSpot(1, 4.0), PatientSpot(2, 0.5), PatientSpot(4, 1.0), PatientSpot(8, 0.0))


@pytest.mark.parametrize("seed", range(4))
def test_no_run_is_below_the_bound_at_what_it_spends(seed: int) -> None:
    where = scene(seed, jobs=16, pools=1 + seed % 2)
    runs = [run_fleet(where, setting) for setting in SETTINGS]
    for run, bound in zip(
        runs, fleet_bounds(where, [run.spent_usd for run in runs], iterations=12), strict=True
    ):
        assert not len(run.late)
        assert bound.mean_response_hours <= run.responses.mean_hours * (1 + 1e-9)


def test_with_enough_money_and_spot_it_is_each_job_at_its_fastest() -> None:
    where = scene(1, jobs=12, pools=1)
    pool = where.pools[0]
    market = Market((dataclasses.replace(pool, spot_gpus=np.full(len(pool), 500)),))
    rich = dataclasses.replace(where, market=market)
    trivial = trivial_hours(problem_of(rich))
    found = fleet_bound(rich, 1e6)
    assert found.mean_response_hours == pytest.approx(trivial)
    assert found.history[-1] >= 0.9 * trivial
    run = run_fleet(rich, PatientSpot(8, 0.0))
    # This rule has no better idea here than to start every job at its fastest, so nothing lies between.
    assert run.responses.mean_hours == pytest.approx(found.mean_response_hours)


def test_less_money_is_a_longer_response() -> None:
    where = scene(2, jobs=16, pools=1)
    hours = [one.mean_response_hours for one in fleet_bounds(where, [100.0, 70.0, 50.0], iterations=15)]
    assert hours == sorted(hours)
    assert hours[2] > 1.2 * hours[0]


def test_steps_are_told() -> None:
    told: list[int] = []
    found = fleet_bound(
        scene(0, jobs=5, pools=1), 60.0, iterations=4, progress=lambda done, _: told.append(done)
    )
    assert told == list(range(1, len(told) + 1))
    assert len(found.history) <= 5


def test_jobs_with_soft_deadlines_are_left_out() -> None:
    market = Market((build.pool(1.0, 5.0, 8, slots=40, name="zone"),))
    free = Job(name="free", work_gpu_hours=2.0, speedup=Amdahl(0.9), widths=(1, 2, 4), restart_hours=0.1)
    soft = dataclasses.replace(free, name="soft", deadline_hours=3.0, worthless_after_hours=6.0)
    where = FleetScene(market, (Member(0.0, free), Member(0.1, soft)))
    assert len(problem_of(where).demand.kind) == 1
    with pytest.raises(InputError, match="without a deadline"):
        problem_of(FleetScene(market, (Member(0.1, soft),)))
