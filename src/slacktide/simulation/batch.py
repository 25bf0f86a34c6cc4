"""Many starts of one policy in one pool, compiled: the twin of `plain.run`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import Job, JobState
from slacktide.market.base import Pool
from slacktide.market.forecast.base import forecast_table
from slacktide.physics import progress as physics
from slacktide.physics.ledger import live
from slacktide.physics.pace import Pace, believed, learn, prior
from slacktide.physics.progress import Terms, cut, given_up, lose
from slacktide.physics.tariff import Meter, Tariff, tariff_of
from slacktide.physics.truth import Truth
from slacktide.policies.base import (
    Context,
    ForeseeingPolicy,
    PreparedPolicy,
    RuleChoice,
    RulePolicy,
    Sight,
    heeds_warnings,
    held_when_late,
    past_deadline,
)
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.no_checkpoints import Unbroken
from slacktide.policies.view import Policy
from slacktide.results.run import Run
from slacktide.results.runs import Runs
from slacktide.simulation import plain
from slacktide.simulation.plain import USUAL, Setting

COLUMNS = (
    "cost_usd",
    "finish_hours",
    "spot_gpu_hours",
    "on_demand_gpu_hours",
    "preemptions",
    "lost_gpu_hours",
    "slots",
)


@compilable
def rule(parameters: tuple[Any, ...], sight: Sight) -> RuleChoice:
    """Stand for the policy's rule; `compiled(run_starts, rule=...)` puts the real one here."""
    return RuleChoice(0, 0, 0)


@compilable
def run_starts(
    parameters: tuple[Any, ...],
    told: Terms,
    terms: Terms,
    first_pace: Pace,
    tariff: Tariff,
    max_cost_usd: float,
    spot_usd: Floats,
    on_demand_usd: Floats,
    spot_gpus: Ints,
    stock: Ints,
    starts: Ints,
    out: Floats,
) -> None:
    """Run the job from each start; one row of `out` each, in the order of COLUMNS.

    `told` is what the job's file says of it, `terms` what it is; `stock` has the on-demand GPUs of each slot,
    or one number for all. Those that are held stay held.
    """
    slots = len(spot_gpus)
    for row in range(len(starts)):
        state = JobState(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, np.inf, False)
        spot_hours = on_demand_hours = lost_work = 0.0
        preemptions = 0
        slot = 0
        pace, mean = first_pace, told
        while state.finish_hours == np.inf and not state.exhausted:
            # After the end of the market only on demand is left, at the last price.
            at = min(starts[row] + slot, slots - 1)
            offered = spot_gpus[at] if starts[row] + slot < slots else 0
            left = lose(terms, state, offered)
            there = stock[min(at, len(stock) - 1)] if starts[row] + slot < slots else UNLIMITED_GPUS
            quote = Quote(spot_usd[at], on_demand_usd[at], offered, max(there, left.on_demand_gpus))
            if state.spot_gpus > left.spot_gpus:
                preemptions += 1
            now, hours = slot * tariff.slot_hours, tariff.slot_hours
            if past_deadline(terms, now):
                late_spot, late_on_demand = held_when_late(terms, left, quote)
                choice = RuleChoice(late_spot, late_on_demand, 0)
            else:
                sight = Sight(mean, tariff, slot, now, (slot + 1) * hours, hours, left, quote, at, pace)
                choice = rule(parameters, sight)
            spot, on_demand = cut(terms, quote, choice.spot_gpus, choice.on_demand_gpus)
            dropped = given_up(terms, left, spot, on_demand, left.pool)
            lost_work += state.progress_gpu_hours - left.progress_gpu_hours + dropped
            # Nothing of this slot was paid before, since holdings change at borders: an empty meter.
            lived = live(
                terms, tariff, max_cost_usd, left, Meter(-1, -1, 0, 0), slot, now, hours, quote, left.pool,
                spot, on_demand,
            )  # fmt: skip
            state = lived.state
            learned = learn(pace, told, left, state, lived.passed.productive_hours)
            moved = abs(learned.mean - pace.mean) + abs(learned.slope - pace.slope)
            pace = learned
            if moved > 0.0:  # terms at another pace are costly to make, and most slots measure nothing new
                mean = believed(told, pace)
            spot_hours += spot * lived.passed.hours
            on_demand_hours += on_demand * lived.passed.hours
            slot += 1
        out[row, 0] = state.cost_usd
        out[row, 1] = state.finish_hours
        out[row, 2] = spot_hours
        out[row, 3] = on_demand_hours
        out[row, 4] = preemptions
        out[row, 5] = lost_work
        out[row, 6] = slot


def can_compile(policy: Policy, pool: Pool) -> bool:
    """Whether a policy, and any policy it wraps, is a rule that can be compiled for a pool.

    Warnings depend on what is held, which a compiled rule does not see: policies that heed them run plainly.
    """
    inner = innermost(policy)
    is_rule = isinstance(inner, RulePolicy | PreparedPolicy)
    return is_rule and not (pool.notice_hours and heeds_warnings(inner))


def prepare(policy: Policy, job: Job, pool: Pool, start: int, setting: Setting) -> Policy:
    """Return a policy with everything worked out that a run from this start needs."""
    if isinstance(policy, DeadlineGuard | Unbroken):
        return dataclasses.replace(policy, inner=prepare(policy.inner, job, pool, start, setting))
    if isinstance(policy, PreparedPolicy):
        return policy.prepared(job, pool, start, setting.neighbours)
    return policy


def prepare_together(
    policy: Policy, job: Job, futures: Sequence[Pool], start: int, setting: Setting
) -> list[Policy]:
    """Return a policy for each of some futures of one past, with everything worked out that can be.

    A policy that solves does it once for all of them, and learns nothing after the start.
    """
    if isinstance(policy, DeadlineGuard | Unbroken):
        inner = prepare_together(policy.inner, job, futures, start, setting)
        return [dataclasses.replace(policy, inner=ready) for ready in inner]
    if isinstance(policy, ForeseeingPolicy):
        return list(policy.prepared_together(job, futures, start, setting.neighbours))
    return [prepare(policy, job, future, start, setting) for future in futures]


def run_futures(
    job: Job, futures: Sequence[Pool], policy: Policy, start: int, *, setting: Setting = USUAL
) -> Sequence[Run]:
    """Run a policy from one start of some futures that share their past."""
    ready = prepare_together(policy, job, futures, start, setting)
    return run_ready(job, futures, ready, start, setting=setting)


def run_ready(
    job: Job, futures: Sequence[Pool], ready: Sequence[Policy], start: int, *, setting: Setting = USUAL
) -> Sequence[Run]:
    """Run from one start of each future the policy that was prepared for it."""
    if not can_compile(ready[0], futures[0]):
        pairs = zip(futures, ready, strict=True)
        return [plain.run(job, future, policy, start=start, setting=setting) for future, policy in pairs]
    rows = []
    for future, policy in zip(futures, ready, strict=True):
        assert isinstance(policy, RulePolicy)
        rows.append(run_table(job, future, policy, [start], setting=setting))
    return runs_of(job, futures[0], [start] * len(rows), np.concatenate(rows), name="")


def needs_preparing(policy: Policy) -> bool:
    """Whether a policy, or the one that it wraps, must be worked out for each start."""
    return isinstance(innermost(policy), PreparedPolicy)


def innermost(policy: Policy) -> Policy:
    """Return the policy that others are wrapped around."""
    return innermost(policy.inner) if isinstance(policy, DeadlineGuard | Unbroken) else policy


def run_table(
    job: Job, pool: Pool, policy: RulePolicy, starts: Sequence[int], *, setting: Setting = USUAL
) -> Floats:
    """Run a rule policy from many starts, compiled; one row per start, columns as in COLUMNS."""
    # All others lie between these two, and the compiled loop checks no bounds.
    for start in (min(starts), max(starts)):
        plain.check_start(job, pool, start)
    context = Context(forecast_table(setting.forecaster, pool, setting.horizon))
    told, truth = physics.terms(job), setting.truth
    if isinstance(truth, Truth):
        return run_rule(job, told, physics.terms(truth.of(job)), pool, policy, context, starts)
    rows = [
        run_rule(job, told, physics.terms(truth.at(start).of(job)), pool, policy, context, [start])
        for start in starts
    ]
    return np.concatenate(rows)


def run_rule(
    job: Job,
    told: Terms,
    terms: Terms,
    pool: Pool,
    policy: RulePolicy,
    context: Context,
    starts: Sequence[int],
) -> Floats:
    """Do what `run_table` does with what many policies of a run share already made; starts are trusted."""
    function, parameters = policy.rule(context)
    out = np.empty((len(starts), len(COLUMNS)))
    compiled(run_starts, rule=function)(
        parameters,
        told,
        terms,
        prior(job.work_spread),
        tariff_of(job.billing, pool.slot_hours),
        float(job.money_usd),
        pool.spot_usd_per_gpu_hour,
        pool.on_demand_usd_per_gpu_hour,
        pool.spot_gpus,
        pool.stock_gpus,
        np.asarray(starts, dtype=np.int64),
        out,
    )
    return out


def run_many(
    job: Job,
    pool: Pool,
    policy: Policy,
    starts: Sequence[int],
    *,
    name: str = "",
    setting: Setting = USUAL,
) -> Runs:
    """Run a policy that `can_compile` from many starts, compiled."""
    if needs_preparing(policy):
        rows = []
        for start in starts:
            ready = prepare(policy, job, pool, start, setting)
            assert isinstance(ready, RulePolicy)
            rows.append(run_table(job, pool, ready, [start], setting=setting))
        return runs_of(job, pool, starts, np.concatenate(rows), name=name)
    assert isinstance(policy, RulePolicy)
    return runs_of(job, pool, starts, run_table(job, pool, policy, starts, setting=setting), name=name)


def runs_of(job: Job, pool: Pool, starts: Sequence[int], table: Floats, *, name: str) -> Runs:
    """Return the rows of a table as runs without their slots."""
    return Runs(job, name, pool.name, starts, table)
