"""Policies that heed warnings: what they do, what they say, and that others are as they were."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slacktide.checks import POLICY_CHECKS
from slacktide.checks.cases import Case, cases
from slacktide.checks.policy import PolicyCheck, cannot_see_the_future
from slacktide.core.types import Allocation, Job
from slacktide.market.base import Market, Pool
from slacktide.policies.base import policies, warned_slots
from slacktide.policies.pools.pool_beliefs import PoolLevels, PoolWarning, Sources
from slacktide.policies.pools.roaming_horizon import RoamingHorizon, SolvedProgramme
from slacktide.policies.view import View
from slacktide.simulation import batch, plain
from slacktide.simulation.plain import guarded, run_over_pools
from slacktide.simulation.pool_options import PoolOptions
from tests import build

START = 352
HEEDING = ("stochastic-horizon", "roaming-horizon")
KEPT = [check for check in POLICY_CHECKS if check is not cannot_see_the_future]
"""A warning is a look into the future, of which the market is the source."""


def falling(notice_hours: float, usd: float = 0.5, name: str = "zone", falls: int = 60) -> Pool:
    """Make a pool that loses its spot for good in a slot after START; before, it stayed for hours."""
    gpus = np.concatenate([np.tile([1] * 40 + [0] * 4, 8), np.ones(80, np.int64)])
    gpus[START + falls :] = 0
    slots = len(gpus)
    return build.pool(np.full(slots, usd), 3.0, gpus, name=name, notice_hours=notice_hours)


@pytest.mark.parametrize("name", HEEDING)
def test_who_is_warned_leaves_before_work_is_lost(name: str) -> None:
    job = Job(work_gpu_hours=10, deadline_hours=16, widths=(1,), restart_hours=0.2, checkpoint_hours=2.0)
    policy = guarded(policies.make(name), job)
    silent, warned = (plain.run(job, falling(hours, falls=7), policy, start=START) for hours in (0.0, 0.5))
    assert silent.lost_gpu_hours > 0.0
    assert warned.lost_gpu_hours == 0.0
    assert warned.cost_usd < silent.cost_usd
    (told,) = [one for one in warned.slots if "notice_hours" in one.wanted.reason.signals]
    assert (told.slot, told.wanted.spot_gpus) == (6, 0)
    assert told.wanted.reason.signals["notice_hours"] == 0.5


def test_over_pools_who_is_warned_leaves_before_work_is_lost() -> None:
    job = Job(work_gpu_hours=10, deadline_hours=16, widths=(1,), restart_hours=0.2, checkpoint_hours=2.0)
    other = falling(0.0, usd=0.6, name="other")
    lost = []
    for hours in (0.0, 0.5):
        ground = PoolOptions.of(job, "", Market((falling(hours, falls=7), other)))
        done = run_over_pools(ground, guarded(RoamingHorizon(), job), start=START)
        lost.append(done.lost_gpu_hours)
        assert done.on_time
    assert lost[0] > 0.0
    assert lost[1] == 0.0


@pytest.mark.parametrize("name", sorted(policies))
def test_only_who_declares_it_decides_otherwise_on_a_market_that_warns(name: str) -> None:
    heeds, differ = name in HEEDING, 0
    for case in cases(11, 25):
        warns = dataclasses.replace(case.pool, notice_hours=3 * case.pool.slot_hours)
        one, other = (plain.run(case.job, pool, policies.make(name)) for pool in (case.pool, warns))
        differ += [slot.wanted for slot in one.slots] != [slot.wanted for slot in other.slots]
        assert batch.can_compile(policies.make(name), warns) <= (not heeds)
    assert (differ > 0) == heeds


@pytest.mark.parametrize("check", KEPT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", HEEDING)
def test_the_contract_holds_on_markets_that_warn(name: str, check: PolicyCheck) -> None:
    rng = np.random.default_rng(5)
    for case in cases(5, 15):
        slots = float(rng.integers(1, 4))
        warns = dataclasses.replace(case.pool, notice_hours=slots * case.pool.slot_hours)
        check(policies.make(name), Case(case.job, warns), rng)


def test_a_warning_is_counted_in_slots() -> None:
    counted: list[tuple[float | None, int | None]] = []

    class Counting:
        def decide(self, view: View) -> Allocation:
            counted.append((view.notice_hours, warned_slots(view)))
            return policies.make("maximal-spot").decide(view)

    job = Job(work_gpu_hours=9, deadline_hours=10, widths=(1,))
    plain.run(job, falling(1.0, falls=5), Counting(), start=START)
    assert [one for one in counted if one[0] is not None] == [(1.0, 2), (0.5, 1)]


def test_what_is_believed_of_a_pool_that_was_warned() -> None:
    found: list[PoolLevels] = []

    class Asked:
        def decide(self, view: View) -> Allocation:
            if view.slot == 2:
                falls = (None, PoolWarning(0, 5, 1), PoolWarning(1, 5, 1))
                found.extend(PoolLevels(view, 0, (1,), Sources(view), fall) for fall in falls)
            return Allocation(1, 0)

    plain.run(Job(work_gpu_hours=4, deadline_hours=10, widths=(1,)), falling(0.0), Asked(), start=START)
    borders = np.array([0, 1, 2, 3, 4, 6])
    usual, warned, elsewhere = (one.chain(2, borders) for one in found)
    assert (usual == elsewhere).all(), "a warning is of one pool"
    assert warned[:2, 1, 1].tolist() == [1.0, 1.0], "it stays until then"
    assert warned[2, 1, 1] == 0.0, "and goes"
    assert 0.0 < warned[3, 0, 1] < 1.0, "and may come back"
    assert warned[:, :2].sum(axis=2) == pytest.approx(1.0)
    up = np.ones(1)
    assert found[1].next(up, 1)[1] == 1.0
    assert 0.0 < found[0].next(up, 1)[1] < 1.0


def test_a_warning_is_remembered() -> None:
    memory = SolvedProgramme(3, 1.25, 2, 8, (0, 2, 5), (4, 0, 6), PoolWarning(2, 7, 4))
    assert SolvedProgramme.read(memory.written()) == memory
    assert SolvedProgramme.read((1.0,) * 7) is None
