"""The simulator of fleets: plain and compiled alike, spot never oversold, deadlines behind the guard."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.allocators.patient_spot import PatientSpot
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import Member
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.simulation.fleet.run import RunOptions, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from tests import build


def scene(seed: int = 0, *, jobs: int = 30, pools: int = 2) -> FleetScene:
    """Return a fleet of two kinds of jobs on a random market; a third of them have deadlines."""
    rng = np.random.default_rng(seed)
    market = Market(
        tuple(
            build.pool(
                rng.uniform(1, 3, 200), 10.0, np.repeat(rng.integers(0, 12, 40), 5), name=f"zone-{number}"
            )
            for number in range(pools)
        )
    )
    kinds = (
        Job(name="small", work_gpu_hours=2.0, speedup=Amdahl(0.9), widths=(1, 2, 4, 8), restart_hours=0.1),
        Job(name="large", work_gpu_hours=9.0, speedup=Amdahl(0.97), widths=(2, 4, 8), restart_hours=0.2,
            checkpoint_hours=0.3, checkpoint_gb=10.0),
    )  # fmt: skip
    members = []
    for hours in np.sort(rng.uniform(0, 30, jobs)):
        kind = kinds[rng.integers(2)]
        work = float(kind.work_gpu_hours * rng.uniform(0.3, 2.0))
        soonest = kind.restart_hours + work / kind.speedup(8)
        due = soonest * float(rng.uniform(1.2, 5.0)) + 0.5 if rng.random() < 0.35 else np.inf
        members.append(Member(float(hours), kind, work, due))
    return FleetScene(market, tuple(members), Allowance(500.0, 20.0))


@pytest.mark.parametrize("seed", range(3))
def test_the_plain_kernel_and_the_compiled_one_are_the_same(seed: int) -> None:
    one, other = (
        run_fleet(scene(seed), PatientSpot(2, 0.5), RunOptions(plain=plain)) for plain in (True, False)
    )
    np.testing.assert_array_equal(one.cost_usd, other.cost_usd)
    np.testing.assert_array_equal(one.finish_hours, other.finish_hours)


@pytest.mark.parametrize("seed", range(6))
def test_all_jobs_are_done_and_hard_deadlines_are_met(seed: int) -> None:
    found = run_fleet(scene(seed), PatientSpot(4, 1.0), RunOptions(keep=True))
    assert np.isfinite(found.finish_hours).all()
    assert not len(found.late)
    assert found.held is not None
    assert found.held.usd.sum() == pytest.approx(found.spent_usd)


@pytest.mark.parametrize("seed", range(6))
def test_spot_is_never_sold_twice(seed: int) -> None:
    where = scene(seed)
    held = run_fleet(where, PatientSpot(4, 1.0), RunOptions(keep=True)).held
    assert held is not None
    for pool in range(2):
        for slot in np.unique(held.slot):
            rows = (held.slot == slot) & (held.pool == pool)
            for moment in held.from_hours[rows]:
                there = rows & (held.from_hours <= moment) & (moment < held.to_hours - 1e-9)
                assert held.spot_gpus[there].sum() <= where.offers(int(slot)).spot_gpus[pool]


def test_jobs_must_come_in_order() -> None:
    job = Job(work_gpu_hours=1.0, widths=(1,))
    market = Market((build.pool(1.0, 1.0, 1, slots=3, name="zone", slot_hours=1.0),))
    with pytest.raises(InputError, match="order of their submission"):
        FleetScene(market, (Member(2.0, job), Member(1.0, job)))
