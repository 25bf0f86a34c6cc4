"""Laws of a job over pools, on any market: never late behind the guard, and nothing seen that was not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slacktide.core.types import Allocation, Job, PoolChoice, Reason, Wish
from slacktide.journal.events import Sight
from slacktide.market.base import Market, Moves, Pool
from slacktide.physics import ledger
from slacktide.physics.tariff import tariff_of
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.pools.roaming_horizon import RoamingHorizon
from slacktide.policies.view import View
from slacktide.simulation.plain import run_over_pools
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.pools.optimum import optimum
from tests import build

SLOTS = 60


def market(seed: int, pools: int, slot_hours: float) -> Market:
    """Make pools of anything: short and long spells, prices that jump."""
    rng = np.random.default_rng(seed)
    made = []
    for at in range(pools):
        spells = rng.geometric(rng.choice([0.1, 0.5]), size=SLOTS)
        up = np.repeat(np.arange(SLOTS) % 2, spells)[:SLOTS]
        usd = rng.choice([1.0, 2.0, 5.0], size=SLOTS)
        on_demand = np.full(SLOTS, float(rng.choice([6.0, 9.0])))
        made.append(Pool(f"zone-{at}", slot_hours, usd, on_demand, up * int(rng.integers(1, 4))))
    return Market(tuple(made), moves=Moves(0.0, 0.02, 0.02, float(rng.choice([1.0, math.inf]))))


@dataclass(frozen=True)
class Anything:
    """Wishes for anything, in any order, as its seed says."""

    seed: int

    def decide(self, view: View) -> Allocation:
        rng = np.random.default_rng([self.seed, view.slot])
        wishes = []
        for _ in range(int(rng.integers(1, 4))):
            pool = int(rng.integers(len(view.pools)))
            assert view.places is not None
            width = int(rng.choice((0, *view.places.jobs[pool].widths)))
            spot = int(rng.integers(0, width + 1))
            wishes.append(Wish(spot, width - spot, view.pools[pool].name))
        first, *rest = wishes
        return Allocation(*first, Reason("anything"), (), tuple(rest))


@settings(max_examples=60, deadline=None)
@example(seed=10_000, tight=2.0, restart=0.0, size=500.0, checkpoint=0.6, sight="feed")
@given(
    seed=st.integers(0, 10_000),
    tight=st.sampled_from([1.01, 1.3, 2.0]),
    restart=st.sampled_from([0.0, 0.1, 0.7]),
    size=st.sampled_from([0.0, 500.0]),
    checkpoint=st.sampled_from([0.0, 0.6, math.inf]),
    sight=st.sampled_from(["feed", "tried"]),
)
def test_a_guarded_job_is_never_late_where_on_demand_is_in_time(
    seed: int, tight: float, restart: float, size: float, checkpoint: float, sight: Sight
) -> None:
    rng = np.random.default_rng(seed)
    found = market(seed, 3, 0.5)
    work = 4.0
    needed = restart + work / 2.0
    job = Job(
        widths=(1, 2),
        work_gpu_hours=work,
        deadline_hours=needed * tight + 1e-6,
        restart_hours=restart,
        checkpoint_hours=checkpoint,
        checkpoint_gb=size,
        billing="slot" if rng.random() < 0.5 else "second",
        pools=(PoolChoice("", "zone-0", (1, 2)), PoolChoice("", "", (2,), 0.5)),
    )
    ground = PoolOptions.of(job, "", found)
    for policy in (Anything(seed), RoamingHorizon()):
        done = run_over_pools(ground, DeadlineGuard(policy), start=int(rng.integers(0, 10)), sight=sight)
        assert done.on_time, (policy, done.finish_hours, job.deadline_hours)
        lived = [record.lived for record in done.slots]
        assert not ledger.audit(lived, lambda _: tariff_of(job.billing, 0.5)).wrong
        assert sum(one.charge.usd for one in lived) == pytest.approx(done.cost_usd)


@pytest.mark.parametrize("seed", range(4))
def test_nobody_pays_less_than_the_optimum(seed: int) -> None:
    found = market(seed, 3, 0.5)
    job = Job(widths=(1,), work_gpu_hours=4.0, deadline_hours=9.0, restart_hours=0.2, checkpoint_gb=50.0)
    ground = PoolOptions.of(job, "", found)
    places = ground.places
    for start in (0, 12):
        best = optimum(places.jobs, ground.pools, start, places.move_hours, places.move_usd)
        for policy in (Anything(seed), RoamingHorizon()):
            paid = run_over_pools(ground, DeadlineGuard(policy), start=start).cost_usd
            assert paid >= best.cost_usd - 1e-9


@dataclass(frozen=True)
class Watching:
    """Follows another policy, and keeps all that it is shown of pools."""

    seen: list[object]

    def decide(self, view: View) -> Allocation:
        for at in range(len(view.pools)):
            self.seen.append((view.pools[at].quote, tuple(view.past(at).spot_gpus)))
            self.seen.append((tuple(view.forecast(at)), tuple(view.sightings(at))))
        return RoamingHorizon().decide(view)


def watched(job: Job, pools: Market) -> tuple[list[object], list[Allocation]]:
    """Run a job that only tries; return all that was shown and wanted."""
    seen: list[object] = []
    done = run_over_pools(PoolOptions.of(job, "", pools), Watching(seen), start=20, sight="tried")
    return seen, [record.wanted for record in done.slots]


def otherwise(pool: Pool) -> Pool:
    """Return a pool that offers something else from slot 20 on."""
    other = np.where(np.arange(SLOTS) < 20, pool.spot_gpus, 3 - pool.spot_gpus)
    return Pool(
        pool.name, pool.slot_hours, pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour, other
    )


def test_who_only_tries_sees_no_more_of_other_pools_than_it_tried() -> None:
    """Where pools that were not tried had other spot, everything shown and decided is the same."""
    job = Job(widths=(1,), work_gpu_hours=2.5, deadline_hours=9.0, restart_hours=0.2, checkpoint_gb=500.0)
    untried = 0
    for seed in range(12):
        found = market(seed, 4, 0.5)
        before = watched(job, found)
        tried = {wish.pool for wanted in before[1] for wish in wanted.wishes if wish.spot_gpus}
        untried += 4 - len(tried)
        changed = tuple(pool if pool.name in tried else otherwise(pool) for pool in found.pools)
        assert watched(job, Market(changed, moves=found.moves)) == before
    assert untried


def test_a_failed_try_gives_way_to_the_next_wish_in_the_same_slot() -> None:
    up = np.array([0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    made = [
        build.pool(np.full(10, usd), 9.0, counts, name=name, slot_hours=1.0)
        for name, usd, counts in (("a", 1.0, up), ("b", 2.0, np.ones(10, int)))
    ]

    @dataclass(frozen=True)
    class CheapestUp:
        def decide(self, view: View) -> Allocation:
            return Allocation(1, 0, "a", Reason("cheapest-up"), (), (Wish(1, 0, "b"), Wish(0, 1, "a")))

    job = Job(widths=(1,), work_gpu_hours=5.0, deadline_hours=9.0, checkpoint_gb=50.0)
    market = Market(tuple(made), moves=Moves(gbit_per_s=math.inf))
    done = run_over_pools(PoolOptions.of(job, "", market), CheapestUp(), sight="tried")
    assert [record.lived.stretch.pool for record in done.slots] == ["b", "b", "a", "a", "a"]
    assert done.cost_usd == pytest.approx(2 * 2.0 + 3 * 1.0 + 1.0)
    assert sum(record.lived.charge.move_usd for record in done.slots) == pytest.approx(1.0)
