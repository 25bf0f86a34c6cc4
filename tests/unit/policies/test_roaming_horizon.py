"""roaming-horizon over pools: near the optimum with widths, the same whatever was worked out before."""

from __future__ import annotations

import pytest

from slacktide.core.types import Allocation, Job
from slacktide.journal.events import Sight
from slacktide.market.base import LruCache
from slacktide.market.source import open_market
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.pools import pool_beliefs, roaming_horizon
from slacktide.policies.pools.roaming_horizon import RoamingHorizon, SolvedProgramme
from slacktide.policies.view import Policy, View
from slacktide.simulation.plain import run_over_pools
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.pools.optimum import optimum as best_plan
from slacktide_papers.baselines.eager_failover import EagerFailover

STARTS = (100, 160, 220)
CACHES = ((roaming_horizon, "_programmes"), (pool_beliefs, "_followed"), (pool_beliefs, "_blended"))


@pytest.fixture(scope="module")
def ground() -> PoolOptions:
    job = Job(
        widths=(1, 2, 3, 4), work_gpu_hours=16.0, deadline_hours=8.0, restart_hours=0.1, checkpoint_gb=20.0
    )
    return PoolOptions.of(job, "", open_market("synthetic:h100?days=10&pools=4&slot=30m&seed=5"))


def bill(ground: PoolOptions, start: int, sight: Sight, *, eager: bool = False) -> float:
    policy = DeadlineGuard(EagerFailover() if eager else RoamingHorizon())
    done = run_over_pools(ground, policy, start=start, sight=sight)
    assert done.on_time
    return done.cost_usd


@pytest.mark.parametrize("sight", ["feed", "tried"])
def test_with_widths_it_is_near_the_optimum_and_below_eager_failover(
    ground: PoolOptions, sight: Sight
) -> None:
    jobs, hours, usd, _ = ground.places
    best = sum(best_plan(jobs, ground.pools, start, hours, usd).least_usd for start in STARTS)
    found = sum(bill(ground, start, sight) for start in STARTS)
    eager = sum(bill(ground, start, sight, eager=True) for start in STARTS)
    assert best <= found <= 1.25 * best
    assert found <= eager


@pytest.mark.parametrize("sight", ["feed", "tried"])
def test_what_was_worked_out_before_changes_no_decision(
    ground: PoolOptions, sight: Sight, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that was started again has nothing kept, and decides as one that has."""

    inner = DeadlineGuard(RoamingHorizon())

    class Forgetful:
        def decide(self, view: View) -> Allocation:
            for module, name in CACHES:
                monkeypatch.setattr(module, name, LruCache(64))
            return inner.decide(view)

    def decided(policy: Policy) -> list[object]:
        done = run_over_pools(ground, policy, start=100, sight=sight)
        return [(*record.wanted[:3], record.wanted.instead) for record in done.slots]

    assert decided(inner) == decided(Forgetful())


def test_what_is_handed_on_is_read_back() -> None:
    memory = SolvedProgramme(3, 1.25, 2, 8, (0, 2, 5), (4, 0, 6))
    assert SolvedProgramme.read(memory.written()) == memory
    assert SolvedProgramme.read(()) is None
    assert SolvedProgramme.read((1.0, 2.0, 3.0)) is None
