"""A view contains no future, and a policy decides on a tape as on the market cut off at the present."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from slacktide.core.types import Job, JobState
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster, forecasters, knows_the_future
from slacktide.market.source import open_market
from slacktide.policies.base import LATE, policies
from slacktide.policies.view import View, look
from slacktide.simulation import plain
from slacktide.simulation.playback import Playback, Setting
from tests.parts_of_reach import find_numbers

JOB = Job(work_gpu_hours=18, deadline_hours=9, widths=(1, 2, 4), restart_hours=0.2, checkpoint_hours=0.3)
START = 70
USD, GPUS = 123456.789, 987654321
"""No market has these: whoever can reach them has reached the future."""
HONEST = sorted(name for name in forecasters if not knows_the_future(forecasters.make(name)))


def market() -> tuple[Pool, ...]:
    """Make four pools: two alike, one that began later inside a slot, one on longer slots that ends early."""
    pools = open_market("synthetic:volatile?seed=5&days=2&slot=30m&pools=3").pools
    coarse = open_market("synthetic:volatile?seed=9&days=1.8&slot=2h").pools[0]
    later = replace(pools[2], start=pools[2].start + timedelta(hours=3, minutes=10))
    return pools[0], pools[1], later, replace(coarse, name="coarse")


def begun(pool: Pool, own: Pool, at: int) -> int:
    """Count by the calendar how many slots of a pool have begun when a slot of the own pool begins."""
    passed = (own.time(at) - pool.start).total_seconds() / 3600
    return min(len(pool), max(0, int(np.floor(passed / pool.slot_hours + 1e-9)) + 1))


def planted(pool: Pool, first: int, notice_hours: float = 0.0) -> Pool:
    """Return a pool with the sentinels in all slots from `first` on; one that warns has no spot there."""
    usd, on_demand = pool.spot_usd_per_gpu_hour.copy(), pool.on_demand_usd_per_gpu_hour.copy()
    gpus = pool.spot_gpus.copy()
    usd[first:], on_demand[first:], gpus[first:] = USD, USD, GPUS
    if notice_hours:
        gpus[first : first + 1] = 0
    return Pool(pool.name, pool.slot_hours, usd, on_demand, gpus, pool.start, notice_hours=notice_hours)


def cut_off(pools: tuple[Pool, ...], at: int) -> Playback:
    """Return the market from the start on, as somebody has it who recorded it up to slot `at`."""
    own = pools[0]
    kept = [pool.window(0, begun(pool, own, at)) for pool in pools if begun(pool, own, at)]
    return Playback(kept[0], START, Setting(neighbours=tuple(kept[1:])))


@pytest.mark.parametrize("name", sorted(policies))
def test_a_policy_decides_on_a_tape_as_on_the_market_cut_off_at_the_present(name: str) -> None:
    pools, policy = market(), policies.make(name)
    run = plain.run(JOB, pools[0], policy, start=START, setting=Setting(neighbours=pools[1:]))
    memory: tuple[float, ...] = ()
    for record in run.slots:
        if record.wanted.reason == LATE:
            break
        now = cut_off(pools, START + record.slot).at(record.slot)
        view = look(JOB, now, record.before, record.slot, pools[0].slot_hours, memory)
        assert policy.decide(view) == record.wanted
        memory = record.wanted.memory


def looked_through(view: View) -> View:
    """Ask a view for all that it has, so that nothing is left to be made later."""
    for pool in range(len(view.pools)):
        view.past(pool)
        if len(view.past(pool)):
            view.forecast(pool)
    assert len(list(view.pools)) == 4
    return view


@pytest.mark.parametrize("name", sorted(policies))
def test_no_future_value_is_reachable_from_a_view(name: str) -> None:
    pools, policy = market(), policies.make(name)
    for slot in range(18):
        at = START + slot
        future = tuple(planted(pool, begun(pool, pools[0], at)) for pool in pools)
        playback = Playback(future[0], START, Setting(neighbours=future[1:]))
        for earlier in range(slot):
            playback.at(earlier)
        view = look(JOB, playback.at(slot), JobState(), slot, 0.5)
        for _ in range(2):
            assert find_numbers(view, (USD, GPUS)) == []
            assert find_numbers(policy, (USD, GPUS)) == []
            policy.decide(looked_through(view))


@pytest.mark.parametrize("name", sorted(policies))
def test_a_warning_leads_to_no_future_value_but_its_own(name: str) -> None:
    pools, policy = market(), policies.make(name)
    for slot in range(6):
        at = START + slot
        own = planted(pools[0], begun(pools[0], pools[0], at), notice_hours=1.0)
        others = tuple(planted(pool, begun(pool, pools[0], at)) for pool in pools[1:])
        playback = Playback(own, START, Setting(neighbours=others))
        held = min(int(own.spot_gpus[at]), 4)
        view = look(JOB, playback.at(slot, spot_gpus=held), JobState(spot_gpus=held), slot, 0.5)
        assert view.notice_hours == (0.5 if held else None)
        for _ in range(2):
            assert find_numbers(view, (USD, GPUS)) == []
            policy.decide(looked_through(view))


@pytest.mark.parametrize("name", HONEST)
def test_no_future_value_is_reachable_through_a_forecaster(name: str) -> None:
    pools, forecaster = market(), forecasters.make(name)
    for slot in (0, 5, 6):
        future = tuple(planted(pool, begun(pool, pools[0], START + slot)) for pool in pools)
        view = at(future, slot, forecaster)
        assert find_numbers(looked_through(view), (USD, GPUS)) == []


def at(pools: tuple[Pool, ...], slot: int, forecaster: Forecaster) -> View:
    setting = Setting(forecaster=forecaster, neighbours=pools[1:])
    return look(JOB, Playback(pools[0], START, setting).at(slot), JobState(), slot, 0.5)


def test_the_walk_finds_what_is_hidden() -> None:
    whole = np.arange(5.0)
    whole[4] = USD
    hidden = [whole[:2], lambda: whole[:1], {"a": (USD,)}, type("Thing", (), {})]
    assert [bool(find_numbers(one, (USD, GPUS))) for one in hidden] == [True, True, True, False]
    pool = planted(market()[0], 3)
    told = at((pool,), 0, forecasters.make("noisy-truth"))
    assert find_numbers(told, (USD, GPUS))
