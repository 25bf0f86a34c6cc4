"""What the clairvoyant and its MILP do at the edges of what can be asked."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.solvers.clairvoyant.clairvoyant import COLUMNS, clairvoyant, yardstick
from tests.oracles import milp


def pool(spot: list[float], offered: list[int], on_demand: float = 2.0) -> Pool:
    return Pool("test", 1.0, np.array(spot), np.full(len(spot), on_demand), np.array(offered))


def test_known_by_hand() -> None:
    """Two hours of work: wait out the dear slot, take the two cheap ones, pay by the second."""
    job = Job(work_gpu_hours=1.5, deadline_hours=3.0, widths=(1,), restart_hours=0.25, value_usd=10.0)
    plan = clairvoyant(job, pool([1.0, 0.5, 0.5], [1, 1, 1]))
    assert plan.spot_gpus.tolist() == [0, 1, 1]
    assert plan.on_demand_gpus.tolist() == [0, 0, 0]
    assert plan.cost_usd == pytest.approx(1.75 * 0.5)
    assert plan.finish_hours == pytest.approx(2.75)
    assert plan.utility_usd == pytest.approx(10.0 - 0.875)
    assert plan.on_time
    assert plan.slots == 3


def test_hard_deadline_out_of_reach_runs_fastest_on_demand() -> None:
    job = Job(work_gpu_hours=9.0, deadline_hours=3.0, widths=(1, 2), value_usd=5.0)
    plan = clairvoyant(job, pool([1.0, 1.0, 1.0], [2, 2, 2]))
    assert not plan.on_time
    assert set(plan.on_demand_gpus) == {2}
    assert plan.finish_hours == pytest.approx(4.5)
    assert plan.cost_usd == pytest.approx(18.0)
    assert plan.estimate_usd == plan.utility_usd
    assert milp.solve(job, pool([1.0, 1.0, 1.0], [2, 2, 2])).status is milp.Status.INFEASIBLE


def test_late_in_the_straddling_slot_is_late() -> None:
    job = Job(work_gpu_hours=2.6, deadline_hours=2.5, widths=(1,))
    assert not clairvoyant(job, pool([1.0] * 3, [1] * 3)).on_time
    assert clairvoyant(
        Job(work_gpu_hours=2.5, deadline_hours=2.5, widths=(1,)), pool([1.0] * 3, [1] * 3)
    ).on_time


def test_worthless_result_takes_the_cheapest_way_out() -> None:
    """A soft deadline and a value of nothing: the termination configuration may be the cheapest end."""
    job = Job(work_gpu_hours=1.0, deadline_hours=1.0, widths=(1,), worthless_after_hours=2.0)
    market = Pool("test", 1.0, np.array([5.0, 5.0]), np.array([5.0, 1.0]), np.array([0, 0]))
    plan = clairvoyant(job, market)
    assert plan.on_demand_gpus.tolist() == [0, 1]
    assert plan.utility_usd == pytest.approx(-1.0)


def test_checkpoints_and_greatest_cost_do_not_count() -> None:
    plain = Job(work_gpu_hours=2.0, deadline_hours=4.0, widths=(1,))
    capped = Job(work_gpu_hours=2.0, deadline_hours=4.0, widths=(1,), checkpoint_hours=5.0, max_cost_usd=0.1)
    market = pool([1.0] * 4, [1, 0, 1, 1])
    assert clairvoyant(capped, market).cost_usd == clairvoyant(plain, market).cost_usd


def test_a_start_must_leave_the_deadline() -> None:
    job = Job(work_gpu_hours=2.0, deadline_hours=3.0, widths=(1,))
    market = pool([1.0] * 4, [1] * 4)
    assert yardstick(job, market, (0, 1)).table.shape == (2, len(COLUMNS))
    assert yardstick(job, market, ()).table.shape == (0, len(COLUMNS))
    with pytest.raises(InputError, match=r"lie in 0\.\.1, got slot 2"):
        clairvoyant(job, market, 2)


def test_milp_reports_its_limit() -> None:
    job = Job(work_gpu_hours=20.0, deadline_hours=12.0, widths=(1, 2, 3, 4), restart_hours=0.3)
    market = pool([1.0, 0.4] * 6, [1, 3, 2, 4] * 3)
    solution = milp.solve(job, market, limits=milp.Limits(time_limit_s=0.0))
    assert solution.status is milp.Status.LIMIT
