"""A back-test over pools is what single runs come to, and what stays stands in its best pool."""

from __future__ import annotations

import dataclasses
import pickle
from itertools import pairwise

import numpy as np
import pytest

from slacktide.app.planning.backtest import backtest
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.types import PoolChoice
from slacktide.journal.events import Sight
from slacktide.market.base import Market
from slacktide.physics.truth import RandomTruth
from slacktide.policies.base import roams
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.pools.roaming_horizon import RoamingHorizon
from slacktide.policies.uniform_progress import UniformProgress
from slacktide.results.comparison import Comparison
from slacktide.results.run import IN_THE_POOL, OVER_POOLS, Stay
from slacktide.simulation import plain
from slacktide.simulation.compare import Starts, common_starts, compare_over_pools
from slacktide.simulation.plain import guarded, run_over_pools
from slacktide.simulation.playback import Setting
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.pools.optimum import optimum
from slacktide_papers.baselines.eager_failover import EagerFailover

from .parts_of_pools import NAMES, job, market, pool

STARTS = (3, 35, 56)
POLICIES = ("uniform-progress", "roaming-horizon")
CENT = 0.005


def compared(sight: Sight = "feed", where: Market | None = None) -> Comparison:
    opened = where or market()
    return compare_over_pools(
        PoolOptions.of(job(), "H100", opened), opened, POLICIES, starts=STARTS, sight=sight
    )


@pytest.mark.parametrize("sight", ["feed", "tried"])
def test_a_policy_over_pools_pays_what_its_single_runs_pay(sight: Sight) -> None:
    ground = PoolOptions.of(job(), "H100", market())
    found = [one for one in compared(sight).runs if one.policy == "roaming-horizon"]
    for one, start in zip(found, STARTS, strict=True):
        alone = run_over_pools(ground, guarded(RoamingHorizon(), job()), start=start, sight=sight)
        assert one.cost_usd == pytest.approx(alone.cost_usd, abs=CENT)
        assert (one.stays, one.moves, one.start_slot) == (alone.stays, alone.moves, start)


def test_who_stays_is_shown_in_the_pool_that_was_best() -> None:
    found, opened = compared(), market()
    bills = {}
    for place in opened.pools:
        setting = Setting.on(opened, place)
        acting = guarded(UniformProgress(), job())
        runs = [plain.run(job(), place, acting, start=start, setting=setting) for start in STARTS]
        bills[place.name] = float(np.mean([one.cost_usd for one in runs]))
    shown = next(one for one in found.summary if one.policy == "uniform-progress")
    assert shown.pool == min(bills, key=lambda name: bills[name])
    fixed = {one.pool: one.mean_cost_usd for one in found.fixed if one.policy == "uniform-progress"}
    assert fixed == pytest.approx(bills)


def test_the_yardstick_is_the_clairvoyant_over_pools() -> None:
    found, ground = compared(), PoolOptions.of(job(), "H100", market())
    jobs, hours, usd, _ = ground.places
    best = sum(optimum(jobs, ground.pools, start, hours, usd).cost_usd for start in STARTS)
    rows = {one.policy: one for one in found.summary}
    assert list(rows) == [*POLICIES, IN_THE_POOL, OVER_POOLS]
    assert rows[OVER_POOLS].mean_cost_usd * len(STARTS) == pytest.approx(best)
    assert rows[OVER_POOLS].cost_over_clairvoyant == pytest.approx(1.0)
    mine = sum(one.cost_usd for one in found.runs if one.policy == "roaming-horizon")
    assert rows["roaming-horizon"].cost_over_clairvoyant == pytest.approx(mine / best)
    assert rows[OVER_POOLS].mean_cost_usd <= rows[IN_THE_POOL].mean_cost_usd + CENT
    assert all(one.cost_over_clairvoyant >= 1.0 - 1e-9 for one in found.summary)


def test_where_a_job_was_adds_up() -> None:
    found = compared()
    assert any(one.moves for one in found.runs), "somebody moves on this market"
    for one in found.detail:
        assert one.bill.cost_usd == pytest.approx(sum(charge.usd for _, charge in one.stretches))
        assert all(first.to_hours <= then.from_hours for first, then in pairwise(one.stays))
        assert bool(one.pools) == (one.policy in ("roaming-horizon", OVER_POOLS))
        assert one.pools or {stay.pool for stay in one.stays} == {one.pool.name}
    for each in found.runs:
        assert 0.4 * each.moves - CENT <= each.move_usd <= 1.6 * each.moves + CENT, "20 GB at 2 or 8 cents"


def test_starts_lie_in_the_time_that_all_pools_cover() -> None:
    early, late = pool(NAMES[0], 0), pool(NAMES[1], 1, late=40)
    opened = Market((early, late), "two.csv")
    ground = PoolOptions.of(job(), "H100", opened)
    starts = common_starts(ground, Starts(4))
    assert (starts[0], starts[-1]) == (40, 120 - 16)
    found = compare_over_pools(ground, opened, POLICIES, starts=starts[:2])
    times = {
        one.policy: {early.time(one.start_slot) if one.pool == early.name else late.time(one.start_slot)}
        for one in found.runs
        if one.start_slot in (starts[0], starts[0] - 40)
    }
    assert all(when == {early.time(starts[0])} for when in times.values())


def test_a_pool_that_does_not_cover_the_starts_is_said_to_be_left_out() -> None:
    opened = Market((pool(NAMES[0], 0), pool(NAMES[1], 1, slots=10)), "two.csv")
    found = compare_over_pools(PoolOptions.of(job(), "H100", opened), opened, POLICIES, starts=(0, 60))
    assert {one.pool for one in found.fixed} == {NAMES[0]}
    assert any(NAMES[1] in sentence and "stayed there" in sentence for sentence in found.assumptions)


def test_all_rows_meet_the_same_truth_from_a_start() -> None:
    opened, truth = market(), RandomTruth(work=(0.5, 1.5), seed=4)
    ground = PoolOptions.of(job(work_spread=0.3), "H100", opened)
    found = compare_over_pools(ground, opened, POLICIES, starts=STARTS, truth=truth)
    best = [one.cost_usd for one in found.runs if one.policy == OVER_POOLS]
    jobs, hours, usd, _ = ground.places
    for cost, start in zip(best, STARTS, strict=True):
        true = [truth.at(start).of(one) for one in jobs]
        assert cost == pytest.approx(optimum(true, ground.pools, start, hours, usd).cost_usd)


def test_a_job_that_names_one_pool_alone_stays_there() -> None:
    wanted = dataclasses.replace(job(), pools=(PoolChoice("H100", NAMES[1]),))
    found = backtest(wanted, market(), POLICIES, starts=2)
    assert not found.roams
    assert [place.name for place in found.pools] == [NAMES[1]]


def test_a_slower_pool_takes_longer() -> None:
    slow = Market((*market().pools[:1], pool("us-west1-b", 5, gpu="V100", usd=0.1)), "mixed.csv")
    choices = (PoolChoice("H100"), PoolChoice("V100", speed=0.5))
    found = backtest(dataclasses.replace(job(), pools=choices), slow, ("maximal-spot",), starts=[30])
    assert found.roams
    assert {one.pool for one in found.fixed} == {NAMES[0], "us-west1-b"}
    bare = {one.pool: one.mean_spot_gpu_hours + one.mean_on_demand_gpu_hours for one in found.fixed}
    assert bare["us-west1-b"] > 1.5 * bare[NAMES[0]]


def test_when_a_job_may_move() -> None:
    opened = market()
    assert backtest(job(), opened, POLICIES, starts=2).roams
    assert not backtest(job(), opened, ("uniform-progress",), starts=2).roams
    assert not backtest(job(), opened, POLICIES, starts=2, pool=NAMES[0]).roams
    assert not backtest(job(), Market(opened.pools[:1], "one.csv"), POLICIES, starts=2).roams
    named = dataclasses.replace(job(), pools=(PoolChoice("H100"),))
    assert backtest(named, opened, ("uniform-progress",), starts=2).roams


def test_a_job_of_another_gpu_type_is_tried_on_a_market_of_one_type() -> None:
    found = backtest(job(), market(), POLICIES, gpu="A100", starts=2)
    assert len(found.pools) == 3
    mixed = Market((*market().pools, pool("us-west1-b", 5, gpu="V100")), "mixed.csv")
    assert len(backtest(job(), mixed, POLICIES, gpu="H100", starts=2).pools) == 3
    with pytest.raises(InputError, match="must fit at least one pool"):
        backtest(job(), mixed, POLICIES, gpu="A100", starts=2)


def test_what_no_pool_can_do_in_time_is_refused() -> None:
    wanted = dataclasses.replace(job(work_gpu_hours=100.0), pools=(PoolChoice("H100", speed=2.0),))
    with pytest.raises(InfeasibleError, match="cannot be met"):
        backtest(wanted, market(), POLICIES, starts=2)
    fast = dataclasses.replace(wanted, pools=(PoolChoice("H100", speed=4.0),))
    assert backtest(fast, market(), ("on-demand",), starts=2).summary[0].on_time_share == 1.0


def test_who_roams() -> None:
    assert roams(RoamingHorizon())
    assert roams(DeadlineGuard(RoamingHorizon()))
    assert not roams(DeadlineGuard(UniformProgress()))
    assert not roams(UniformProgress())
    assert roams(EagerFailover())


def test_runs_survive_the_way_to_another_process() -> None:
    found = compared()
    again = pickle.loads(pickle.dumps(list(found.runs)))
    assert again == list(found.runs)
    assert all(isinstance(stay, Stay) for one in again for stay in one.stays)
