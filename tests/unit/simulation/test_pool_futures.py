"""Futures of several pools are windows of their common past, or drawn apart where that is too short."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slacktide.app.planning.plan import plan as make
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.types import PoolChoice
from slacktide.market.base import Market
from slacktide.policies.pools.roaming_horizon import RoamingHorizon
from slacktide.policies.uniform_progress import UniformProgress
from slacktide.report.pages.plan import page
from slacktide.report.text.tables import plan as report
from slacktide.report.wire.plan import as_json
from slacktide.results.plan import JobPlan
from slacktide.results.run import OVER_POOLS
from slacktide.simulation.plan.futures import futures_of_pools
from slacktide.simulation.plan.planned_job import PlannedJob, PlanStart, Variant, known_at
from slacktide.simulation.plan.what_if import against_width, if_work_is_wrong
from slacktide.simulation.pool_options import PoolOptions

from .parts_of_pools import NAMES, job, market, pool


def ground(slot: int = 100, **changes: int) -> PoolOptions:
    whole = PoolOptions.of(job(), "H100", market(**changes))
    now = known_at(whole, slot)
    assert now is not None
    return now


def test_a_future_is_one_window_of_the_past_in_all_pools() -> None:
    now = ground()
    drawn = futures_of_pools(now, paths=4)
    assert "the same for all pools" in drawn.assumption
    assert len(drawn.options) == 4
    for future in drawn.options:
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
        futures_of_pools(now, paths=3).options, futures_of_pools(other, paths=3).options, strict=True
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
    drawn = futures_of_pools(now, paths=4)
    then = np.array(
        [[one.spot_gpus[drawn.start + 1] >= 4 for one in future.pools] for future in drawn.options]
    )
    assert (then == up[:, -1]).sum(axis=1).mean() > every + 0.3, "pools that are as they are now"


def test_a_short_past_is_modelled_pool_by_pool_and_that_is_said() -> None:
    drawn = futures_of_pools(ground(slot=20), paths=3)
    assert "independent of each other" in drawn.assumption
    assert all(len(one) >= drawn.start + 16 for future in drawn.options for one in future.pools)


def test_pools_that_are_not_recorded_now_are_left_out() -> None:
    two = Market((*market().pools[:2], pool("us-west1-c", 7, late=110)), "three.csv")
    whole = PoolOptions.of(job(), "H100", two)
    now = known_at(whole, 50)
    assert now is not None
    assert [one.name for one in now.pools] == list(NAMES[:2])
    assert now.places.move_usd.shape == (2, 2)
    late = Market((two.pools[0], two.pools[2]), "two.csv")
    with pytest.raises(InputError, match="at least two pools"):
        make(job(), late, "roaming-horizon", start=10)


@pytest.fixture(scope="module")
def plan() -> JobPlan:
    return make(job(work_spread=0.3), market(), "roaming-horizon", start=100)


def test_a_plan_says_where_to_start_and_what_moving_saves(plan: JobPlan) -> None:
    assert plan.outlooks[0].policy == "roaming-horizon"
    assert plan.outlooks[-1].policy == OVER_POOLS
    assert plan.pool in NAMES
    assert plan.moving is not None
    costs = {(one.policy, one.pool): one.futures.mean_cost_usd for one in plan.outlooks}
    saving = plan.moving.saving
    assert saving is not None
    assert saving.mean_usd == pytest.approx(costs[saving.policy, saving.pool] - costs["roaming-horizon", ""])
    assert all(cost >= costs[OVER_POOLS, ""] - 0.01 for cost in costs.values())
    assert sum(one.held_share for one in plan.moving.pools) == pytest.approx(1.0)
    assert all(0.0 <= share <= 1.0 + 1e-9 for _, shares in plan.moving.held for share in shares)
    assert plan.outlooks[0].futures.on_time_share == 1.0


def test_a_plan_fits_on_a_screen_and_names_its_assumptions(plan: JobPlan) -> None:
    text = report.page(plan)
    assert len(text.splitlines()) <= 40
    assert f"Start in {plan.pool}" in text or "Start: " in text
    assert "Moving" in text
    assert "Prices were read off." in text
    assert "12 futures" in text
    found = as_json(plan)
    assert found["pool"] == plan.pool
    assert {one["name"] for one in found["pools"]} == set(NAMES)
    assert set(found["held_over_time"]["pools"]) == set(NAMES)
    assert "<svg" in page(plan)


def test_a_plan_over_pools_says_what_a_later_deadline_would_save(plan: JobPlan) -> None:
    assert [point.at for point in plan.by_deadline] == [6.75, 8.0, 9.0, 10.0, 12.0]
    now = plan.by_deadline[1]
    assert (now.more_usd, now.more_error_usd) == (0.0, 0.0)
    # The same futures for every deadline: a day in which to wait for spot cannot cost more than its noise.
    last = plan.by_deadline[-1]
    assert last.more_usd <= last.more_error_usd
    assert last.more_usd == pytest.approx(last.mean_cost_usd - now.mean_cost_usd)
    assert "4h more would" in report.page(plan)
    assert [one["deadline_hours"] for one in as_json(plan)["cost_by_deadline"]] == [
        6.75,
        8.0,
        9.0,
        10.0,
        12.0,
    ]


def test_a_plan_over_pools_says_what_wrong_work_would_do(plan: JobPlan) -> None:
    found = plan.wrong_work
    assert found is not None
    assert found.spread == 0.3
    right = plan.outlooks[0].futures.cost_usd
    assert found.cost_usd.p90 - found.cost_usd.p10 > right.p90 - right.p10
    assert found.on_time_share <= 1.0 - found.hopeless_share
    assert "If it is off by 30%" in report.page(plan)
    assert as_json(plan)["wrong_work"]["spread"] == 0.3
    certain = if_work_is_wrong([job()], 3, lambda truths: pytest.fail("nothing is run"))
    assert certain is None


def test_gpus_held_over_time_are_those_of_the_pools(plan: JobPlan) -> None:
    assert plan.moving is not None
    inside = np.sum([shares for _, shares in plan.moving.held], axis=0)
    held = np.array([one.spot_gpus + one.on_demand_gpus for one in plan.gpus])
    assert held == pytest.approx(4 * inside)


def test_narrower_widths_are_tried_over_the_same_futures_without_pools_that_are_too_wide() -> None:
    wide, narrow = PoolChoice("H100", infra=NAMES[0], widths=(4,)), PoolChoice("H100", widths=(2, 4))
    wanted = job(work_gpu_hours=8.0, widths=(2, 4), pools=(wide, narrow))
    whole = PoolOptions.of(wanted, "H100", market())
    now = known_at(whole, 100)
    assert now is not None
    here = PlannedJob.over_pools(PlanStart.at(market(), NAMES[0], 100), now)._replace(paths=3)
    assert here.widths == (2, 4)
    policy = UniformProgress()
    runs = here._replace(stays_in=NAMES[1]).run_variants([Variant(8.0, 4), Variant(8.0, 2)], policy)
    assert [len(found) for found in runs.values()] == [3, 3]
    moved = here.run_variants([Variant(8.0, 2), Variant(0.25, 4)], RoamingHorizon())
    ((variant, found),) = moved.items()  # nobody can be done in a quarter of an hour
    assert variant.most_gpus == 2
    for one in found:
        assert all(record.spot_gpus + record.on_demand_gpus <= 2 for record in one.slots)
        assert all(stay.pool != NAMES[0] for stay in one.stays)
    points = against_width(here, RoamingHorizon())
    assert [point.at for point in points] == [2.0, 4.0]
    assert points[-1].more_usd == 0.0


def test_who_stays_is_planned_in_the_best_pool() -> None:
    wanted = dataclasses.replace(job(), pools=(PoolChoice("H100"),))
    found = make(wanted, market(), "maximal-spot", others=("roaming-horizon",), start=100)
    assert found.outlooks[0].policy == "maximal-spot"
    assert found.outlooks[0].pool == found.pool
    assert found.by_deadline
    assert f"with maximal-spot in {found.pool}" in report.page(found)


def test_a_job_with_one_pool_has_a_plan_for_that_pool() -> None:
    for choice, policy, where in (((), "roaming-horizon", NAMES[0]), ((NAMES[2],), "uniform-progress", None)):
        wanted = dataclasses.replace(job(), pools=tuple(PoolChoice("H100", infra=name) for name in choice))
        found = make(wanted, market(), policy, others=(), pool=where, start=60)
        assert found.moving is None
        assert found.pool == (where or NAMES[2])
        assert found.outlooks[0].history is not None


def test_what_cannot_be_planned_over_pools() -> None:
    with pytest.raises(InfeasibleError, match="cannot be met"):
        make(job(work_gpu_hours=60.0), market(), "roaming-horizon")
    with pytest.raises(InfeasibleError, match="max_cost must allow"):
        make(job(max_cost_usd=1.0), market(), "roaming-horizon", start=100)
    with pytest.raises(InputError, match="must have a deadline"):
        make(job(deadline_hours=float("inf")), market(), "roaming-horizon")
