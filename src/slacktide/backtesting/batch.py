"""The back-test of many starts at once, compiled: the same source as the plain one, in a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from slacktide import physics
from slacktide.arrays import Floats, Ints
from slacktide.backtesting import plain
from slacktide.backtesting.plain import USUAL, Setting
from slacktide.compiled import compilable, compiled
from slacktide.deciding import Policy
from slacktide.forecast.base import forecast_table
from slacktide.ledger import live
from slacktide.market.base import Pool
from slacktide.pace import Pace, believed, learn, prior
from slacktide.physics import Terms, cut, given_up, lose
from slacktide.policy.base import (
    Choice,
    Context,
    PreparedPolicy,
    RulePolicy,
    Sight,
    held_when_late,
    past_deadline,
)
from slacktide.policy.deadline_guard import DeadlineGuard
from slacktide.policy.unbroken import Unbroken
from slacktide.results.run import Run
from slacktide.tariff import Meter, Tariff, tariff_of
from slacktide.types import Job, JobState, Quote

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
def rule(parameters: tuple[Any, ...], sight: Sight) -> Choice:
    """Stand for the policy's rule; `compiled(run_starts, rule=...)` puts the real one here."""
    return Choice(0, 0, 0)


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
    starts: Ints,
    out: Floats,
) -> None:
    """Run the job from each start; one row of `out` each, in the order of COLUMNS.

    `told` is what the job says of itself, `terms` what it is.
    """
    slots = len(spot_gpus)
    for row in range(len(starts)):
        state = JobState(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, np.inf, False)
        spot_hours = on_demand_hours = lost_work = 0.0
        preemptions = 0
        slot = 0
        pace, mean = first_pace, told
        while state.finish_hours == np.inf and not state.exhausted:
            at = min(starts[row] + slot, slots - 1)
            offered = spot_gpus[at] if starts[row] + slot < slots else 0
            quote = Quote(spot_usd[at], on_demand_usd[at], offered)
            left = lose(terms, state, offered)
            if state.spot_gpus > left.spot_gpus:
                preemptions += 1
            now, hours = slot * tariff.slot_hours, tariff.slot_hours
            if past_deadline(terms, now):
                late_spot, late_on_demand = held_when_late(terms, left, quote)
                choice = Choice(late_spot, late_on_demand, 0)
            else:
                sight = Sight(mean, tariff, slot, now, (slot + 1) * hours, hours, left, quote, at, pace)
                choice = rule(parameters, sight)
            spot, on_demand = cut(terms, quote, choice.spot_gpus, choice.on_demand_gpus)
            dropped = given_up(terms, left, spot, on_demand, left.pool)
            lost_work += state.progress_gpu_hours - left.progress_gpu_hours + dropped
            lived = live(
                terms, tariff, max_cost_usd, left, Meter(-1, -1, 0, 0), slot, now, hours, quote, left.pool,
                spot, on_demand,
            )  # fmt: skip
            state = lived.state
            learned = learn(pace, told, left, state, lived.passed.productive_hours)
            moved = abs(learned.mean - pace.mean) + abs(learned.slope - pace.slope)
            pace = learned
            if moved > 0.0:
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


def can_compile(policy: Policy) -> bool:
    """Whether a policy, and any policy it wraps, is a rule that can be compiled."""
    if isinstance(policy, DeadlineGuard | Unbroken):
        return can_compile(policy.inner)
    return isinstance(policy, RulePolicy | PreparedPolicy)


def prepare(policy: Policy, job: Job, pool: Pool, start: int, setting: Setting) -> Policy:
    """Return a policy with everything worked out that a run from this start needs."""
    if isinstance(policy, DeadlineGuard | Unbroken):
        return dataclasses.replace(policy, inner=prepare(policy.inner, job, pool, start, setting))
    if isinstance(policy, PreparedPolicy):
        return policy.prepared(job, pool, start, setting.neighbours)
    return policy


def _needs_preparing(policy: Policy) -> bool:
    if isinstance(policy, DeadlineGuard | Unbroken):
        return _needs_preparing(policy.inner)
    return isinstance(policy, PreparedPolicy)


def run_table(
    job: Job, pool: Pool, policy: RulePolicy, starts: Sequence[int], *, setting: Setting = USUAL
) -> Floats:
    """Run a rule policy from many starts, compiled; one row per start, columns as in COLUMNS."""
    for start in (min(starts), max(starts)):
        plain.check_start(job, pool, start)
    context = Context(forecast_table(setting.forecaster, pool, setting.horizon))
    told, terms = physics.terms(job), physics.terms(setting.truth.of(job))
    return run_rule(job, told, terms, pool, policy, context, starts)


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
) -> list[Run]:
    """Run a policy that `can_compile` from many starts, compiled."""
    if _needs_preparing(policy):
        rows = []
        for start in starts:
            ready = prepare(policy, job, pool, start, setting)
            assert isinstance(ready, RulePolicy)
            rows.append(run_table(job, pool, ready, [start], setting=setting))
        return runs_of(job, pool, starts, np.concatenate(rows), name=name)
    assert isinstance(policy, RulePolicy)
    return runs_of(job, pool, starts, run_table(job, pool, policy, starts, setting=setting), name=name)


def runs_of(job: Job, pool: Pool, starts: Sequence[int], table: Floats, *, name: str) -> list[Run]:
    """Write the rows of a table as runs without their slots."""
    return [
        Run(
            policy=name,
            pool=pool.name,
            start_slot=int(start),
            cost_usd=cost,
            utility_usd=job.value_at(finish) - cost,
            finish_hours=finish,
            on_time=job.on_time(finish),
            spot_gpu_hours=spot,
            on_demand_gpu_hours=on_demand,
            preemptions=int(preemptions),
            lost_gpu_hours=lost,
        )
        for start, (cost, finish, spot, on_demand, preemptions, lost, _) in zip(
            starts, table.tolist(), strict=True
        )
    ]
