"""The compiled promise to be in time is the promise of a job alone, on any state of any job."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices import deadline_guarantees as promises
from slacktide.allocators.site.job_tables import JobTables, Kinds, SiteMoment, state_of, terms_of
from slacktide.budget.classes import Member
from slacktide.checks.allocators.site_cases import site_cases
from slacktide.core.quotes import Quote
from slacktide.core.types import Job, PoolChoice, Wish
from slacktide.market.base import Market, Moves, Pool
from slacktide.physics import progress as physics
from slacktide.policies.pools import rescue
from slacktide.simulation.fleet.scene import FleetScene


class Moment(NamedTuple):
    """A job with a hard deadline in some state, and what it might hold from now on."""

    scene: FleetScene
    kinds: Kinds
    lives: JobTables
    now_hours: float
    pools: list[int]
    """The pools that it may be in."""
    pool: int
    spot: int
    on_demand: int

    @property
    def hours(self) -> float:
        """How long it is until the next border."""
        return self.scene.slot_hours

    @property
    def site(self) -> SiteMoment:
        """The same as compiled rules read it."""
        prices = self.scene.offers(0)
        return SiteMoment(self.kinds, self.lives, prices, self.now_hours, self.hours, self.hours)


def moments(count: int) -> Iterator[Moment]:
    """Yield jobs of unkind cases in random states, about their last moment."""
    rng = np.random.default_rng(3)
    for case in site_cases(21, count):
        scene, soonest = case.scene, float(case.soonest_hours[0])
        due = soonest * float(rng.uniform(1.0, 2.0))
        first = replace(scene.members[0], submitted_hours=0.0, deadline_hours=due)
        if not first.hard:
            continue
        scene = replace(scene, members=(first,), fleet=None)
        for _ in range(6):
            yield _moment(scene, due, rng)


def _moment(scene: FleetScene, due: float, rng: np.random.Generator) -> Moment:
    kinds, jobs = scene.kinds, scene.job_tables()
    pools = np.flatnonzero(kinds.fastest[0]).tolist()
    here, there = (int(rng.choice(pools)) for _ in range(2))
    jobs.pool[0] = here
    jobs.spot_gpus[0], jobs.on_demand_gpus[0] = _split(kinds, here, rng)
    held = jobs.gpus[0] > 0
    jobs.pause_hours[0] = kinds.restart_hours[0] * rng.random() if held else 0.0
    done, safe = np.sort(rng.choice([0.0, 0.3, 0.9, rng.random()], 2))[::-1] * jobs.ends_gpu_hours[0, -1]
    checkpoint = kinds.checkpoint_hours[0]
    jobs.progress_gpu_hours[0] = done
    jobs.checkpointed_gpu_hours[0] = safe if checkpoint > 0 and held else done
    jobs.since_checkpoint_hours[0] = min(checkpoint, 1.0) * rng.random() if held else 0.0
    now = due * float(rng.random())
    return Moment(scene, kinds, jobs, now, pools, there, *_split(kinds, there, rng))


def _split(kinds: Kinds, pool: int, rng: np.random.Generator) -> tuple[int, int]:
    """Return a width as spot alone, on demand alone, or at times some of both."""
    width = int(rng.choice(np.unique(kinds.fit[0, pool])))
    spot = int(rng.choice([0, width, int(rng.integers(0, width + 1))]))
    return spot, width - spot


def safe(one: Moment) -> bool:
    """Return what the fleet's promise says."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return promises.is_safe(one.site, 0, one.pool, one.spot, one.on_demand)


def test_in_one_pool_the_promise_is_the_guard_of_a_job_alone() -> None:
    seen = {True: 0, False: 0}
    for one in moments(150):
        if len(one.pools) > 1:
            continue
        terms, state = terms_of(one.kinds, one.lives, 0, one.pool), state_of(one.lives, 0)
        border = one.now_hours + one.hours
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = physics.can_still_wait(
                terms, state, one.now_hours, border, one.hours, one.spot, one.on_demand
            )
        assert safe(one) == alone
        seen[bool(alone)] += 1
    assert min(seen.values()) > 20


def quotes(one: Moment) -> list[Quote]:
    """Return what the pools of a job offer at the start."""
    offer = one.scene.offers(0)
    return [Quote(float(offer.spot_usd[at]), float(offer.on_demand_usd[at]), 9) for at in one.pools]


def test_over_pools_the_promise_is_that_of_a_job_alone() -> None:
    seen = {True: 0, False: 0}
    for one in moments(150):
        terms = rescue.file_terms(one.scene.places(0))
        state = state_of(one.lives, 0)._replace(pool=one.pools.index(int(one.lives.pool[0])))
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = rescue.is_safe(
                terms, quotes(one), state, one.now_hours, one.now_hours + one.hours, one.hours,
                one.pools.index(one.pool), Wish(one.spot, one.on_demand),
            )  # fmt: skip
        # Of spot and on demand together the fleet does not count on keeping the on-demand part alone.
        assert alone or not safe(one)
        if not (one.spot and one.on_demand):
            assert safe(one) == alone
        seen[bool(alone)] += 1
    assert min(seen.values()) > 50


def test_spot_that_is_kept_may_be_worse_than_spot_that_is_lost() -> None:
    """Who has lost all work begins anew in a fast pool at once; who has not carries its checkpoint there."""
    counts, usd = np.ones(9, dtype=np.int64), np.ones(9)
    slow, fast = (Pool(f"zone-{at}", 0.5, usd, usd, counts) for at in (0, 1))
    job = Job(
        work_gpu_hours=4.0,
        widths=(1,),
        deadline_hours=5.2,
        checkpoint_hours=math.inf,
        checkpoint_gb=500.0,
        pools=(PoolChoice("", "zone-0", (1,), 0.2), PoolChoice("", "zone-1", (1,))),
    )
    market = Market((slow, fast), moves=Moves(0.02, 0.02, 0.02, gbit_per_s=0.5))
    scene = FleetScene(market, (Member(0.0, job),))
    assert scene.kinds.move_hours[0, 0, 1] > 2.0
    held = Moment(scene, scene.kinds, scene.job_tables(), 0.0, [0, 1], 0, 1, 0)
    lost, _, _ = promises.at_the_border(held.site, 0, 0, 1, 0)
    assert promises.can_be_rescued(held.kinds, held.lives, 0, lost, 0.5)
    assert not safe(held)
    assert safe(held._replace(spot=0))
    assert safe(held._replace(pool=1))


def test_a_rescue_is_in_time_wherever_one_is_and_costs_no_more_than_that_of_a_job_alone() -> None:
    in_time = 0
    for one in moments(150):
        places, state = one.scene.places(0), state_of(one.lives, 0)
        usd = one.scene.offers(0).on_demand_usd
        own = state._replace(pool=one.pools.index(int(state.pool)))
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = rescue.rescue(rescue.file_terms(places), places, quotes(one), own, one.now_hours)
            pool, gpus, most = promises.rescue(one.site, 0, state, one.now_hours)
            finish = physics.finish_in(
                terms_of(one.kinds, one.lives, 0, pool), state, one.now_hours, pool, gpus
            )
            can = promises.can_be_rescued(one.kinds, one.lives, 0, state, one.now_hours)
        limit = one.lives.deadline_hours[0] + promises.LATE_HOURS
        keeps = (pool, gpus) == (state.pool, state.on_demand_gpus) and not state.spot_gpus
        cost = usd[pool] * gpus * (finish - one.now_hours) + promises.move_usd(one.kinds, 0, state, pool)
        if can:
            assert finish <= limit
            assert cost <= most + 1e-9
            assert keeps or not math.isfinite(alone.cost_usd) or cost <= alone.cost_usd + 1e-9
            in_time += 1
    assert in_time > 50


def test_what_is_kept_for_a_rescue_is_enough_at_any_later_moment_of_waiting() -> None:
    compared = 0
    for one in moments(100):
        jobs = one.lives
        jobs.spot_gpus[0] = jobs.on_demand_gpus[0] = 0
        jobs.pause_hours[0], jobs.checkpointed_gpu_hours[0] = 0.0, jobs.progress_gpu_hours[0]
        state, usd = state_of(jobs, 0), one.scene.offers(0).on_demand_usd
        kept = promises.rescue(one.site, 0, state, one.now_hours).most_usd
        for later in np.linspace(one.now_hours, jobs.deadline_hours[0], 7):
            if not promises.can_be_rescued(one.kinds, jobs, 0, state, later):
                break
            pool, gpus, _ = promises.rescue(one.site, 0, state, later)
            finish = physics.finish_in(terms_of(one.kinds, jobs, 0, pool), state, later, pool, gpus)
            cost = usd[pool] * gpus * (finish - later) + promises.move_usd(one.kinds, 0, state, pool)
            assert cost <= kept + 1e-9
            compared += 1
    assert compared > 100
