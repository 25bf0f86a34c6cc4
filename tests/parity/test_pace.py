"""Jobs that are not what their files say: measured alike by plain and compiled back-tests, and in time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.market.source import open_market
from slacktide.physics import progress as physics
from slacktide.physics.pace import USUAL_SPREAD
from slacktide.physics.truth import AS_SAID, RandomTruth, Truth
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import to_spare
from slacktide.simulation import batch, plain
from slacktide.simulation.compare import compare
from slacktide.simulation.plain import guarded
from slacktide.simulation.playback import Setting

SLACKS = (0.3, 0.6, 1.1)
TRUTHS = (AS_SAID, Truth(0.6), Truth(1.2), Truth(1.5), Truth(1.9), Truth(1.3, 0.8))
STARTS = range(0, 900, 60)


def job(slack: float) -> Job:
    """Return a job on up to 8 GPUs with so much more time than its file says that it needs."""
    speedup = Amdahl(0.97)
    least = 4 / 60 + 40.0 / speedup(8)
    return Job(
        work_gpu_hours=40.0, deadline_hours=(1 + slack) * least, widths=tuple(range(1, 9)), speedup=speedup,
        restart_hours=4 / 60, shrink_hours=2 / 60, checkpoint_hours=10 / 60, work_spread=USUAL_SPREAD,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> Pool:
    return open_market("synthetic:h100?slot=30m&seed=4").pools[0]


def spare_hours(one: Job, truth: Truth, slot_hours: float) -> float:
    """Return how much time on demand from the start would have to spare, less what the promise needs."""
    true = truth.of(one)
    return (
        true.deadline_hours
        - true.restart_hours
        - true.work_hours(true.fastest_width)
        - to_spare(physics.terms(true), slot_hours)
    )


@pytest.mark.parametrize("name", ["uniform-progress", "maximal-spot"])
def test_compiled_and_plain_measure_alike(name: str, pool: Pool) -> None:
    for slack, truth in ((0.6, Truth(1.4)), (1.1, Truth(1.9, 0.9)), (0.3, Truth(0.7))):
        one, setting = job(slack), Setting(truth=truth)
        policy = guarded(policies.make(name), one)
        fast = batch.run_compiled(one, pool, policy, [60, 300], setting=setting)
        for run in fast:
            slow = plain.run(one, pool, policy, start=run.start_slot, setting=setting)
            assert run.cost_usd == pytest.approx(slow.cost_usd, rel=1e-9)
            assert run.finish_hours == pytest.approx(slow.finish_hours, rel=1e-9)


@pytest.mark.parametrize("name", ["uniform-progress", "maximal-spot"])
def test_never_late_whatever_the_file_says_where_on_demand_has_time_to_spare(name: str, pool: Pool) -> None:
    promised = 0
    for slack in SLACKS:
        one = job(slack)
        for truth in TRUTHS:
            if spare_hours(one, truth, pool.slot_hours) <= 0:
                continue
            policy = guarded(policies.make(name), one)
            runs = batch.run_compiled(one, pool, policy, STARTS, setting=Setting(truth=truth))
            late = [run.start_slot for run in runs if not run.on_time]
            assert not late, f"slack {slack}, truth {truth}: late from {late}"
            promised += len(runs)
    assert promised > 150, "the promise must be tried where it holds"


def test_a_file_that_is_believed_is_late_where_the_job_is_slower(pool: Pool) -> None:
    believed = dataclasses.replace(job(1.1), work_spread=0.0)
    policy = guarded(policies.make("maximal-spot"), believed)
    runs = batch.run_compiled(believed, pool, policy, STARTS, setting=Setting(truth=Truth(1.9)))
    assert any(not run.on_time for run in runs), "the scene: this is what measuring prevents"


def test_the_truth_is_in_the_pace_and_leaves_the_work_as_said() -> None:
    one, true = job(0.6), Truth(work=2.0, speed=0.5).of(job(0.6))
    assert true.work_gpu_hours == one.work_gpu_hours
    ratios = [true.speedup(width) / one.speedup(width) for width in (1, 8)]
    assert ratios == pytest.approx([0.5, 0.25])
    assert np.isclose(true.speedup(2) / one.speedup(2), 0.5 * 0.5 ** (1 / 3))
    assert AS_SAID.of(one) is one
    with pytest.raises(InputError, match="the truth's work must be in"):
        Truth(work=0.0)


@pytest.mark.parametrize("name", ["uniform-progress", "stochastic-horizon"])
@pytest.mark.parametrize("spread", [0.0, USUAL_SPREAD])
def test_compiled_and_plain_draw_the_same_truth_for_a_start(name: str, spread: float, pool: Pool) -> None:
    one = dataclasses.replace(job(1.1), work_spread=spread)
    truth = RandomTruth(speed=(0.8, 1.1), later=(0.9, 1.0), seed=3)
    setting, policy = Setting(truth=truth), guarded(policies.make(name), one)
    fast = batch.run_compiled(one, pool, policy, [60, 300, 500], setting=setting)
    assert len({run.finish_hours for run in fast}) == 3
    for run in fast:
        fixed = Setting(truth=truth.at(run.start_slot))
        for other in (setting, fixed):
            ready = batch.prepare(policy, one, pool, run.start_slot, other)
            slow = plain.run(one, pool, ready, start=run.start_slot, setting=other)
            assert run.cost_usd == pytest.approx(slow.cost_usd, rel=1e-9)
            assert run.finish_hours == pytest.approx(slow.finish_hours, rel=1e-9)


def test_the_clairvoyant_is_that_of_the_true_job(pool: Pool) -> None:
    one = dataclasses.replace(job(1.1), work_spread=0.0)
    truth, starts = RandomTruth(seed=1), [60, 300, 500]
    found = compare(one, pool, ["on-demand"], starts=starts, truth=truth)
    for run in (run for run in found.runs if run.policy == "clairvoyant"):
        alone = compare(truth.at(run.start_slot).of(one), pool, ["on-demand"], starts=[run.start_slot])
        same = next(other for other in alone.runs if other.policy == run.policy)
        assert (run.cost_usd, run.finish_hours) == pytest.approx((same.cost_usd, same.finish_hours))
    detail = next(run for run in found.detail if run.policy == "clairvoyant")
    listed = next(
        run for run in found.runs if run.policy == "clairvoyant" and run.start_slot == detail.start_slot
    )
    assert detail.bill.cost_usd == pytest.approx(listed.cost_usd, rel=1e-6)
