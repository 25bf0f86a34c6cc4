"""Futures of several pools are windows of their common past, or drawn apart where that is too short."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slacktide.app.planning.pools_plan import plan_over_pools
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.types import PoolChoice
from slacktide.market.base import Market
from slacktide.report.pages.pools_plan import page
from slacktide.report.text.tables import pools_plan as report
from slacktide.results.pools_plan import PoolsPlan
from slacktide.results.run import OVER_POOLS
from slacktide.simulation.plan.pool_futures import pool_futures, present
from slacktide.simulation.pool_options import PoolOptions

from .parts_of_pools import NAMES, job, market, pool


def ground(slot: int = 100, **changes: int) -> PoolOptions:
    whole = PoolOptions.of(job(), "H100", market(**changes))
    now = present(whole, whole.pools, slot)
    assert now is not None
    return now


def test_a_future_is_one_window_of_the_past_in_all_pools() -> None:
    now = ground()
    drawn = pool_futures(now, paths=4)
    assert "the same for all pools" in drawn.assumption
    assert len(drawn.grounds) == 4
    for future in drawn.grounds:
        begins = [
            {
                at
                for at in range(len(past) - 15)
                if np.array_equal(past.spot_gpus[at + 1 : at + 16], one.spot_gpus[drawn.start + 1 :])
            }
            for past, one in zip(now.pools, future.pools, strict=True)
        ]
        assert set.intersection(*begins), "all pools go on from the same time"


def test_the_present_is_real_and_what_comes_after_it_is_not_known() -> None:
    now, other = ground(), ground(slots=101)
    for future, again in zip(
        pool_futures(now, paths=3).grounds, pool_futures(other, paths=3).grounds, strict=True
    ):
        for past, one, same in zip(now.pools, future.pools, again.pools, strict=True):
            at = len(past) - 1
            assert one.quote(at) == past.quote(at)
            assert np.array_equal(one.spot_gpus[: at + 1], past.spot_gpus)
            assert np.array_equal(one.spot_gpus, same.spot_gpus)


@pytest.mark.parametrize("slot", [70, 80, 90, 100])
def test_windows_begin_more_like_the_present_than_others(slot: int) -> None:
    now = ground(slot)
    up = np.array([past.spot_gpus >= 4 for past in now.pools])
    every = (up[:, : up.shape[1] - 15] == up[:, -1:]).sum(axis=0).mean()
    drawn = pool_futures(now, paths=4)
    then = np.array(
        [[one.spot_gpus[drawn.start + 1] >= 4 for one in future.pools] for future in drawn.grounds]
    )
    assert (then == up[:, -1]).sum(axis=1).mean() > every + 0.3, "pools that are as they are now"


def test_a_short_past_is_modelled_pool_by_pool_and_that_is_said() -> None:
    drawn = pool_futures(ground(slot=20), paths=3)
    assert "independent of each other" in drawn.assumption
    assert all(len(one) >= drawn.start + 16 for future in drawn.grounds for one in future.pools)


def test_pools_that_are_not_recorded_now_are_left_out() -> None:
    two = Market((*market().pools[:2], pool("us-west1-c", 7, late=110)), "three.csv")
    whole = PoolOptions.of(job(), "H100", two)
    now = present(whole, whole.pools, 50)
    assert now is not None
    assert [one.name for one in now.pools] == list(NAMES[:2])
    assert now.places.move_usd.shape == (2, 2)
    assert present(whole, whole.pools[2:], 0) is not None
    late = Market((two.pools[0], two.pools[2]), "two.csv")
    with pytest.raises(InputError, match="at least two pools"):
        plan_over_pools(job(), late, "roaming-horizon", start=10)


@pytest.fixture(scope="module")
def plan() -> PoolsPlan:
    found = plan_over_pools(job(), market(), "roaming-horizon", start=100)
    assert found is not None
    return found


def test_a_plan_says_where_to_start_and_what_moving_saves(plan: PoolsPlan) -> None:
    assert plan.outlooks[0].policy == "roaming-horizon"
    assert plan.outlooks[-1].policy == OVER_POOLS
    assert plan.start_pool in NAMES
    costs = {(one.policy, one.pool): one.futures.mean_cost_usd for one in plan.outlooks}
    assert plan.saving is not None
    stayed = costs[plan.saving.policy, plan.saving.pool]
    assert plan.saving.mean_usd == pytest.approx(stayed - costs["roaming-horizon", ""])
    assert all(cost >= costs[OVER_POOLS, ""] - 0.01 for cost in costs.values())
    assert sum(one.held_share for one in plan.pools) == pytest.approx(1.0)
    assert all(0.0 <= share <= 1.0 + 1e-9 for _, shares in plan.held for share in shares)
    assert plan.outlooks[0].futures.on_time_share == 1.0


def test_a_plan_fits_on_a_screen_and_names_its_assumptions(plan: PoolsPlan) -> None:
    text = report.page(plan)
    assert len(text.splitlines()) <= 40
    assert f"Start in {plan.start_pool}" in text or "Start: " in text
    assert "Moving" in text
    assert "Prices were read off." in text
    assert "12 futures" in text
    found = report.as_json(plan)
    assert found["pool"] == plan.start_pool
    assert {one["name"] for one in found["pools"]} == set(NAMES)
    assert "<svg" in page(plan)


def test_who_stays_is_planned_in_the_best_pool() -> None:
    wanted = dataclasses.replace(job(), pools=(PoolChoice("H100"),))
    found = plan_over_pools(wanted, market(), "maximal-spot", others=("roaming-horizon",), start=100)
    assert found is not None
    assert found.outlooks[0].policy == "maximal-spot"
    assert found.outlooks[0].pool == found.start_pool


def test_what_is_no_plan_over_pools() -> None:
    assert plan_over_pools(job(), market(), "uniform-progress") is None
    assert plan_over_pools(job(), market(), "roaming-horizon", pool=NAMES[0]) is None
    with pytest.raises(InfeasibleError, match="cannot be met"):
        plan_over_pools(job(work_gpu_hours=60.0), market(), "roaming-horizon")
    with pytest.raises(InfeasibleError, match="max_cost must allow"):
        plan_over_pools(job(max_cost_usd=1.0), market(), "roaming-horizon", start=100)
    with pytest.raises(InputError, match="must have a deadline"):
        plan_over_pools(job(deadline_hours=float("inf")), market(), "roaming-horizon")
