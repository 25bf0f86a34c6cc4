"""The clairvoyant optimum three ways: dynamic programme = MILP = enumeration."""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.core.quotes import Quote
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Allocation, Job, JobState
from slacktide.market.base import Pool
from slacktide.physics.progress import lose
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.on_demand import OnDemand
from slacktide.policies.view import View
from slacktide.simulation import plain
from slacktide.solvers.clairvoyant import clairvoyant as solver
from slacktide.solvers.clairvoyant.clairvoyant import clairvoyant, yardstick
from slacktide.solvers.clairvoyant.forward_run import solve_starts
from slacktide.solvers.clairvoyant.frame import frame
from slacktide.solvers.slotted import Slotted, live_slot, slotted
from tests import build
from tests.oracles import milp
from tests.parts_of_effort import examples

BATCHES = 11
PER_BATCH = examples(30)
MOST_PLANS = 60_000
"""Above this many plans an instance is not enumerated."""


class Instance(NamedTuple):
    job: Job
    pool: Pool
    start: int


def instance(seed: int) -> Instance:
    """Draw a small job and market; the seeds together cover every feature of the physics."""
    rng = np.random.default_rng(seed)
    slot_hours = float(rng.choice([0.5, 1.0]))
    widths = ((1,), (1, 2), (1, 2, 3), (1, 2, 4), (2, 3), (2, 4), (3,))[rng.integers(7)]
    slots = int(rng.integers(3, 6))
    deadline = slots * slot_hours - (
        0.0 if rng.random() < 0.5 else float(rng.choice([0.1, 0.25, 0.17])) * slot_hours
    )
    restart = slot_hours * float(rng.choice([0.0, 0.1, 0.25, 0.5, 1.0, 1.3, 2.5]))
    speedup = _speedup(rng)
    fastest = max(speedup(width) for width in widths)
    hard = rng.random() < 0.5
    job = Job(
        work_gpu_hours=round(float(fastest * deadline * rng.uniform(0.1, 1.0)), int(rng.integers(1, 4)))
        + 0.05,
        deadline_hours=deadline,
        widths=widths,
        speedup=speedup,
        restart_hours=restart,
        shrink_hours=None if rng.random() < 0.4 else restart * float(rng.choice([0.0, 0.5, 0.8])),
        value_usd=float(rng.choice([0.0, 5.0, 40.0])),
        worthless_after_hours=None if hard else deadline * float(rng.choice([1.1, 1.5, 3.0])),
        billing="second" if rng.random() < 0.6 else "slot",
    )
    start = int(rng.integers(0, 3))
    spare = 0 if rng.random() < 0.3 else int(rng.integers(1, 4))
    return Instance(
        job,
        _pool(rng, slot_hours, start + slotted(job, slot_hours).deadline_slots + spare, widths[-1]),
        start,
    )


def _speedup(rng: np.random.Generator) -> Speedup:
    choices: tuple[Speedup, ...] = (
        Linear(), Linear(0.8, 0.2), Linear(1.0, 0.5), Amdahl(0.9), Power(0.7),
        Table(((1.0, 1.0), (2.0, 1.75), (4.0, 2.5))), Table(((1.0, 1.0), (2.0, 1.5))),
    )  # fmt: skip
    return choices[rng.integers(len(choices))]


def _pool(rng: np.random.Generator, slot_hours: float, slots: int, most: int) -> Pool:
    spot = rng.choice([0.0, 0.3, 0.5, 1.0, 1.3, 2.6], size=slots)
    on_demand = np.full(slots, 2.0) if rng.random() < 0.5 else rng.choice([0.0, 1.5, 2.0, 3.0], size=slots)
    offered = np.zeros(slots, dtype=np.int64) if rng.random() < 0.1 else rng.integers(0, most + 2, size=slots)
    return Pool("test", slot_hours, spot, on_demand, offered)


@compilable
def enumerate_plans(
    bare: Slotted, spot_usd: Floats, on_demand_usd: Floats, spot_gpus: Ints, plans: Ints, out: Floats
) -> None:
    """Live through each plan (slots by two kinds) with nothing but the physics."""
    for row in range(len(plans)):
        state = JobState(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, np.inf, False)
        slot = 0
        while state.finish_hours == np.inf:
            quote = Quote(spot_usd[slot], on_demand_usd[slot], spot_gpus[slot])
            left = lose(bare.terms, state, quote.spot_gpus)
            step = min(slot, plans.shape[1] - 1)
            spot, on_demand = plans[row, step, 0], plans[row, step, 1]
            if slot >= bare.deadline_slots:
                spot, on_demand = 0, bare.fastest
            state = live_slot(bare, left, slot, quote, spot, on_demand).state
            slot += 1
        out[row, 0], out[row, 1] = state.cost_usd, state.finish_hours


def outcomes(case: Instance, plans: Ints) -> Floats:
    """Return the cost and the finish of each plan."""
    job, pool, start = case
    quotes = [pool.quote(start + slot) for slot in range(200)]
    out = np.empty((len(plans), 2))
    compiled(enumerate_plans)(
        slotted(job, pool.slot_hours),
        np.array([q.spot_usd_per_gpu_hour for q in quotes]),
        np.array([q.on_demand_usd_per_gpu_hour for q in quotes]),
        np.array([q.spot_gpus for q in quotes]),
        plans,
        out,
    )
    return out


def best_of(case: Instance, plans: Ints) -> float:
    """Return the greatest utility among plans; for a hard deadline only those in time count."""
    utilities = [
        case.job.value_at(finish) - cost
        for cost, finish in outcomes(case, plans)
        if not case.job.hard or case.job.on_time(finish)
    ]
    return max(utilities, default=-math.inf)


def all_plans(case: Instance) -> Ints | None:
    """Return every plan the market allows, or None where there are too many."""
    job, pool, start = case
    choices = []
    for slot in range(slotted(job, pool.slot_hours).deadline_slots):
        offered = pool.quote(start + slot).spot_gpus
        pairs = [(s, width - s) for width in job.widths for s in range(min(width, offered) + 1)]
        choices.append([(0, 0), *pairs])
    if math.prod(len(pairs) for pairs in choices) > MOST_PLANS:
        return None
    return np.array(list(product(*choices)), dtype=np.int64)


def on_demand_bill(case: Instance) -> float:
    """Return what the fastest width on demand from the first slot costs: the scale for errors."""
    job = case.job
    return float(outcomes(case, np.array([[[0, job.fastest_width]]], dtype=np.int64))[0, 0])


class Replay(NamedTuple):
    """The plan as a policy, so that the back-test can run it."""

    plan: solver.Plan

    def decide(self, view: View) -> Allocation:
        return Allocation(int(self.plan.spot_gpus[view.slot]), int(self.plan.on_demand_gpus[view.slot]))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_dynamic_programme_equals_milp_equals_enumeration(batch: int) -> None:
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        case = instance(seed)
        check(case, f"seed {seed}: {case}")


def check(case: Instance, told: str) -> None:
    """Compare the three solutions of one instance, and the plan with its replay in the back-test."""
    plan = clairvoyant(*case)
    other = milp.solve(*case)
    plans = all_plans(case)
    scale = max(abs(plan.utility_usd), on_demand_bill(case), 1e-3)
    if other.status is milp.Status.INFEASIBLE:
        assert not plan.on_time, told
        assert plans is None or best_of(case, plans) == -math.inf, told
        assert set(plan.on_demand_gpus) == {case.job.fastest_width}, told
        return
    assert other.status is milp.Status.OPTIMAL, told
    assert plan.on_time or not case.job.hard, told
    decoded = best_of(case, np.stack([other.spot_gpus, other.on_demand_gpus], axis=1)[None])
    assert decoded == pytest.approx(other.utility_usd, abs=1e-5 * scale), told
    assert plan.utility_usd <= other.utility_usd + 1e-5 * scale, told
    tolerance = 1e-6 if plan.exact else 1e-3 * scale
    assert plan.utility_usd >= decoded - tolerance, told
    if plans is not None:
        best = best_of(case, plans)
        assert best - tolerance <= plan.utility_usd <= best + 1e-9 * scale, told
    if plan.exact:
        assert plan.estimate_usd == pytest.approx(plan.utility_usd, abs=1e-6), told
    run = plain.run(case.job, case.pool, Replay(plan), start=case.start)
    assert run.cost_usd == pytest.approx(plan.cost_usd, abs=1e-9), told
    assert run.finish_hours == pytest.approx(plan.finish_hours, abs=1e-9), told


LARGE_SLOTS = 48


def large_market(seed: int) -> Pool:
    """Draw a market of 30-minute slots whose spot comes and goes in spells."""
    rng = np.random.default_rng(seed)
    slots = 3 * LARGE_SLOTS
    offered = np.zeros(slots, dtype=np.int64)
    for slot in range(slots):
        stays = slot > 0 and rng.random() < 0.65
        offered[slot] = offered[slot - 1] if stays else rng.integers(0, 9)
    spot = np.clip(1.0 + 0.3 * np.cumsum(rng.normal(0.0, 0.1, slots)), 0.3, 2.5)
    return build.pool(spot, 3.0, offered, name="large")


def large_job(kind: str) -> Job:
    """Return a job of 48 slots and 8 GPUs whose progress has no common step."""
    return Job(
        work_gpu_hours=80.0,
        deadline_hours=24.0,
        widths=tuple(range(1, 9)),
        speedup=Power(0.8) if kind == "power" else Amdahl(0.95),
        restart_hours=0.05,
        shrink_hours=0.01 if kind == "shrink" else None,
        value_usd=300.0,
        worthless_after_hours=36.0 if kind == "soft" else None,
        billing="slot" if kind == "whole-slots" else "second",
    )


def utilities(job: Job, table: Floats) -> Floats:
    """Return the utility of each row of a table."""
    return np.array([job.value_at(finish) for finish in table[:, 1]]) - table[:, 0]


@pytest.mark.parametrize("kind", ["hard", "soft", "shrink", "whole-slots", "power"])
def test_half_the_cell_changes_little(kind: str) -> None:
    job, pool, starts = large_job(kind), large_market(1), range(0, 96, 8)
    coarse = utilities(job, yardstick(job, pool, starts).table)
    fine = utilities(job, yardstick(job, pool, starts, accuracy=0.5 * solver.ACCURACY).table)
    on_demand = plain.run(job, pool, OnDemand()).cost_usd
    assert np.abs(fine - coarse).max() < 1e-3 * min(job.value_usd, on_demand)


def test_exact_grid_equals_a_very_fine_one() -> None:
    job = Job(work_gpu_hours=60.0, deadline_hours=12.0, widths=tuple(range(1, 9)), restart_hours=0.05)
    pool = large_market(2)
    plan = clairvoyant(job, pool)
    assert plan.exact
    assert plan.estimate_usd == pytest.approx(plan.utility_usd, abs=1e-9)
    uneven = Job(work_gpu_hours=60.0, deadline_hours=12.0, widths=job.widths, restart_hours=0.05,
                 speedup=Linear(1.0, 1e-7))  # fmt: skip
    near = clairvoyant(uneven, pool, accuracy=1e-4)
    assert not near.exact
    assert near.cost_usd == pytest.approx(plan.cost_usd, rel=2e-4)


@pytest.mark.parametrize("kind", ["hard", "soft", "whole-slots"])
@pytest.mark.parametrize("name", sorted(set(policies) - {"deadline-guard"}))
def test_no_policy_beats_the_clairvoyant(name: str, kind: str) -> None:
    job, pool, starts = large_job(kind), large_market(3), (0, 50)
    best = utilities(job, yardstick(job, pool, starts).table)
    policy = DeadlineGuard(policies.make(name))
    got = np.array([plain.run(job, pool, policy, start=start).utility_usd for start in starts])
    assert (got <= best + 5e-4 * np.maximum(job.value_usd - best, 1.0)).all()


def test_plain_equals_compiled() -> None:
    for seed in (3, 8):
        case = instance(seed)
        numbers = frame(case.job, case.pool.slot_hours, 0.02, may_be_exact=False)
        fast = solver.solve_with(compiled(solve_starts), numbers, case.job, case.pool, (case.start,))
        slow = solver.solve_with(solve_starts, numbers, case.job, case.pool, (case.start,))
        for one, other in zip(fast, slow, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["hard", "soft", "shrink"])
def test_values_computed_again_are_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job, pool, starts = large_job(kind), large_market(4), range(0, 96, 32)
    at_once = yardstick(job, pool, starts, accuracy=1 / 500).table
    assert frame(job, 0.5, 1 / 500).segment == LARGE_SLOTS
    monkeypatch.setattr("slacktide.solvers.clairvoyant.frame.STORED_NUMBERS", 600_000)
    numbers = frame(job, 0.5, 1 / 500)
    assert numbers.segment == 7
    assert numbers.last == 500
    np.testing.assert_array_equal(yardstick(job, pool, starts, accuracy=1 / 500).table, at_once)


def test_table_equals_single_plans_and_their_replay() -> None:
    job, pool = large_job("shrink"), large_market(5)
    table = yardstick(job, pool, (0, 40)).table
    for start, row in zip((0, 40), table, strict=True):
        plan = clairvoyant(job, pool, start)
        run = plain.run(job, pool, Replay(plan), start=start)
        replayed = (
            run.cost_usd, run.finish_hours, run.spot_gpu_hours, run.on_demand_gpu_hours,
            run.preemptions, run.lost_gpu_hours, len(run.slots),
        )  # fmt: skip
        np.testing.assert_allclose(row, replayed, rtol=1e-12)
        assert (plan.cost_usd, plan.finish_hours, plan.slots) == (row[0], row[1], row[6])


def test_long_pause_over_many_slots() -> None:
    """One GPU, 195-second slots, a restart of 12 minutes: the pause carries over three slots."""
    rng = np.random.default_rng(7)
    offered = np.repeat(rng.integers(0, 2, 60), 10)
    pool = build.pool(1.0, 3.0, offered, name="long", slot_hours=195 / 3600)
    job = Job(work_gpu_hours=12.0, deadline_hours=20.0, widths=(1,), restart_hours=0.2)
    plan = clairvoyant(job, pool)
    assert plan.exact
    assert plan.on_time
    assert plan.estimate_usd == pytest.approx(plan.utility_usd, abs=1e-6)
    gridded = yardstick(
        Job(work_gpu_hours=12.0, deadline_hours=20.0, widths=(1,), restart_hours=0.2000001), pool, (0,)
    ).table
    assert gridded[0, 0] == pytest.approx(plan.cost_usd, rel=1e-3)
