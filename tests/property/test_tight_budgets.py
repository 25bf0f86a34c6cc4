"""Where money is just enough, promises and the budget are kept both: the reserve never falls short."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slacktide.allocators.shadow_prices import ShadowPrices
from slacktide.allocators.view import BUDGET_SHORT
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import Member
from slacktide.core.speedup import Amdahl, Power
from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.simulation.fleet.run import RunOptions, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from tests import build
from tests.parts_of_effort import examples

SLOTS, JOBS = 60, 40
KINDS = (
    Job(name="wide", work_gpu_hours=3.0, speedup=Power(0.85), widths=(1, 2, 4, 8), restart_hours=0.08),
    Job(name="small", work_gpu_hours=1.0, speedup=Amdahl(0.8), widths=(1, 2, 4), restart_hours=0.03),
)


def scene(seed: int) -> FleetScene:
    """Return jobs, most of them with hard deadlines, on a budget of a few on-demand rescues."""
    rng = np.random.default_rng(seed)
    gpus = np.maximum(np.cumsum(rng.integers(-4, 5, SLOTS)) + 8, 0)
    pool = build.pool(2.5, 10.0, gpus, name="zone", slot_hours=1 / 6)
    members = tuple(_member(rng, float(hours)) for hours in np.sort(rng.uniform(0.0, 8.0, JOBS)))
    return FleetScene(Market((pool,)), members, Allowance(float(rng.uniform(60.0, 400.0)), 10.0), again=True)


def _member(rng: np.random.Generator, hours: float) -> Member:
    job = KINDS[rng.integers(2)]
    work = job.work_gpu_hours * float(rng.lognormal(0.0, 0.6))
    due = (work / job.speedup(4) + 0.1) * float(rng.uniform(1.2, 5.0))
    return Member(hours, job, work, due if rng.random() < 0.6 else math.inf, kind=job.name)


@pytest.mark.parametrize("seed", range(examples(120)))
def test_admitted_deadlines_are_met_and_the_budget_is_kept_to_the_last_dollar(seed: int) -> None:
    found = run_fleet(scene(seed), ShadowPrices(), RunOptions(keep=True))
    assert not len(found.late)
    assert found.most_spent_share <= 1.0
    assert BUDGET_SHORT not in {reason.rule for _, _, reason in found.reasons}
