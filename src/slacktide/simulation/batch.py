"""Back-tests of one policy, or of the clairvoyant, from many starts in one pool, compiled where possible.

The compiled loop does the same as `plain.run`; a test compares the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import Job, JobState
from slacktide.market.base import Pool
from slacktide.market.forecast.base import forecast_table
from slacktide.market.forecast.persistence import DEFAULT_HORIZON
from slacktide.physics import progress as physics
from slacktide.physics.ledger import live
from slacktide.physics.pace import Pace, believed, learn, prior
from slacktide.physics.progress import Terms, cut, given_up, lose
from slacktide.physics.tariff import Meter, Tariff, tariff_of
from slacktide.physics.truth import AS_SAID, Truth
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
from slacktide.results.run import CLAIRVOYANT, COLUMNS, OVER_POOLS, Run, Runs
from slacktide.simulation.plain import check_start, follow, guarded, run
from slacktide.simulation.playback import USUAL, Setting, TruthByStart
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.clairvoyant.clairvoyant import Yardstick, clairvoyant, yardstick
from slacktide.solvers.pools.optimum import optimum


@compilable
def rule(parameters: tuple[Any, ...], sight: Sight) -> RuleChoice:
    """Hold the place of the policy's rule, which `compiled(run_starts, rule=...)` puts here."""
    return RuleChoice(0, 0, 0)


@compilable
def run_starts(
    parameters: tuple[Any, ...],
    stated: Terms,
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

    `stated` is the job as its file describes it, `terms` as it really is. `stock` has the on-demand GPUs of
    each slot, or one number for all slots; a job keeps those that it holds if the stock falls.
    """
    slots = len(spot_gpus)
    for row in range(len(starts)):
        state = JobState(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, np.inf, False)
        spot_hours = on_demand_hours = lost_work = 0.0
        preemptions = 0
        slot = 0
        pace, mean = first_pace, stated
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
            # An empty meter: nothing in this slot was paid before, since holdings only change at borders.
            lived = live(
                terms, tariff, max_cost_usd, left, Meter(-1, -1, 0, 0), slot, now, hours, quote, left.pool,
                spot, on_demand,
            )  # fmt: skip
            state = lived.state
            learned = learn(pace, stated, left, state, lived.passed.productive_hours)
            moved = abs(learned.mean - pace.mean) + abs(learned.slope - pace.slope)
            pace = learned
            if moved > 0.0:  # terms are costly to compute, and most slots measure nothing new
                mean = believed(stated, pace)
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

    The compiled loop does not give warnings of losses, so in a pool that warns, policies that react to
    warnings run plainly.
    """
    inner = innermost(policy)
    is_rule = isinstance(inner, RulePolicy | PreparedPolicy)
    return is_rule and not (pool.notice_hours and heeds_warnings(inner))


def prepare(policy: Policy, job: Job, pool: Pool, start: int, setting: Setting) -> Policy:
    """Return a policy with everything computed in advance that a run from this start needs."""
    if isinstance(policy, DeadlineGuard | Unbroken):
        return dataclasses.replace(policy, inner=prepare(policy.inner, job, pool, start, setting))
    if isinstance(policy, PreparedPolicy):
        return policy.prepared(job, pool, start, setting.neighbours)
    return policy


def prepare_together(
    policy: Policy, job: Job, futures: Sequence[Pool], start: int, setting: Setting
) -> list[Policy]:
    """Return a policy prepared for each future of one past, as `prepare` does.

    A `ForeseeingPolicy` solves once for all of them, and learns nothing after the start.
    """
    if isinstance(policy, DeadlineGuard | Unbroken):
        inner = prepare_together(policy.inner, job, futures, start, setting)
        return [dataclasses.replace(policy, inner=ready) for ready in inner]
    if isinstance(policy, ForeseeingPolicy):
        return list(policy.prepared_together(job, futures, start, setting.neighbours))
    return [prepare(policy, job, future, start, setting) for future in futures]


def run_ready(
    job: Job, futures: Sequence[Pool], ready: Sequence[Policy], start: int, *, setting: Setting = USUAL
) -> Sequence[Run]:
    """Run the policy that was prepared for each future in it, all from the same start."""
    pairs = list(zip(futures, ready, strict=True))
    if not can_compile(ready[0], futures[0]):
        return [run(job, future, policy, start=start, setting=setting) for future, policy in pairs]
    rows = [run_table(job, future, policy, [start], setting=setting) for future, policy in pairs]
    return Runs(job, "", futures[0].name, [start] * len(rows), np.concatenate(rows))


def innermost(policy: Policy) -> Policy:
    """Return the policy inside the guard and other wrappers."""
    return innermost(policy.inner) if isinstance(policy, DeadlineGuard | Unbroken) else policy


def run_table(
    job: Job,
    pool: Pool,
    policy: Policy | RulePolicy,
    starts: Sequence[int],
    *,
    setting: Setting = USUAL,
) -> Floats:
    """Run a rule policy from many starts, compiled; one row per start, columns as in COLUMNS."""
    assert isinstance(policy, RulePolicy), "what can be compiled is a rule once it is prepared"
    # The compiled loop does not check bounds; all other starts lie between these two.
    for start in (min(starts), max(starts)):
        check_start(job, pool, start)
    context = Context(forecast_table(setting.forecaster, pool, DEFAULT_HORIZON))
    stated, truth = physics.terms(job), setting.truth
    if isinstance(truth, Truth):
        return run_rule(job, stated, physics.terms(truth.of(job)), pool, policy, context, starts)
    rows = [
        run_rule(job, stated, physics.terms(truth.at(start).of(job)), pool, policy, context, [start])
        for start in starts
    ]
    return np.concatenate(rows)


def run_rule(
    job: Job,
    stated: Terms,
    terms: Terms,
    pool: Pool,
    policy: RulePolicy,
    context: Context,
    starts: Sequence[int],
) -> Floats:
    """Do what `run_table` does, with terms and forecasts that many policies share; starts are not checked."""
    function, parameters = policy.rule(context)
    out = np.empty((len(starts), len(COLUMNS)))
    compiled(run_starts, rule=function)(
        parameters,
        stated,
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


COMPILE_FROM = 40  # with fewer runs the plain loop ends before compiled code is even loaded


def run_compiled(
    job: Job,
    pool: Pool,
    policy: Policy,
    starts: Sequence[int],
    *,
    name: str = "",
    setting: Setting = USUAL,
) -> Runs:
    """Run a policy for which `can_compile` is true from many starts; no guard is added."""
    if not isinstance(innermost(policy), PreparedPolicy):
        return Runs(job, name, pool.name, starts, run_table(job, pool, policy, starts, setting=setting))
    rows = []
    for start in starts:
        ready = prepare(policy, job, pool, start, setting)
        rows.append(run_table(job, pool, ready, [start], setting=setting))
    return Runs(job, name, pool.name, starts, np.concatenate(rows))


def run_many(
    job: Job,
    pool: Pool,
    policy: Policy,
    starts: Sequence[int],
    *,
    name: str,
    setting: Setting = USUAL,
    few: bool | None = None,
) -> Sequence[Run]:
    """Run one policy, guarded, from many starts: compiled where that is possible and pays, else plainly.

    Where `starts` is only a part of all starts, `few` says whether all are too few for compiling to pay.
    """
    acting = guarded(policy, job)
    small = len(starts) < COMPILE_FROM if few is None else few
    if isinstance(innermost(acting), PreparedPolicy):  # preparing it for each start always pays
        small = False
    if can_compile(acting, pool) and not small:
        return run_compiled(job, pool, acting, starts, name=name, setting=setting)
    ready = (acting if small else prepare(acting, job, pool, start, setting) for start in starts)
    return [
        # Only the totals of a run are kept: the slots of thousands of runs would fill the memory.
        dataclasses.replace(run(job, pool, prepared, start=start, name=name, setting=setting), slots=())
        for prepared, start in zip(ready, starts, strict=True)
    ]


def run_in_detail(
    job: Job,
    pool: Pool,
    policy: Policy | None,
    start: int,
    *,
    name: str,
    setting: Setting = USUAL,
    among: int = 1,
) -> Run:
    """Run from one of `among` starts and keep every slot; where `policy` is None, run the clairvoyant."""
    if policy is not None:
        ready = prepare(guarded(policy, job), job, pool, start, setting)
        return run(job, pool, ready, start=start, name=name, setting=setting)
    truth = setting.truth.at(start)
    plan = clairvoyant(truth.of(job), pool, start, among=among)
    return follow(PoolOptions.single(job, pool), plan, start=start, name=name, truth=truth)


def run_optimum(options: PoolOptions, start: int, truth: Truth = AS_SAID) -> Run:
    """Run the clairvoyant over pools from one start, and keep every slot."""
    jobs, hours, usd, _ = options.places
    plan = optimum([truth.of(job) for job in jobs], options.pools, start, hours, usd)
    return follow(options, plan, start=start, name=OVER_POOLS, truth=truth)


def run_yardstick(
    job: Job,
    pool: Pool,
    starts: Sequence[int],
    *,
    among: int | None = None,
    tell: Callable[[int], None] | None = None,
) -> tuple[Runs, list[float]]:
    """Run the clairvoyant's plan from many starts, which may be a part of `among` starts.

    Returns with the runs how much the best plan from each start could gain over its plan at the most, where
    the job is too wide to solve exactly; [] where the plans are the best.
    """
    best = yardstick(job, pool, starts, among=among, report=tell)
    runs = Runs(job, CLAIRVOYANT, pool.name, starts, best.table)
    return runs, [] if best.spare_usd is None else best.spare_usd.tolist()


def solve_yardstick(
    job: Job, pool: Pool, starts: Sequence[int], *, among: int, truth: TruthByStart = AS_SAID
) -> Yardstick:
    """Return the clairvoyant from some of `among` starts, for the job as it really is."""
    if isinstance(truth, Truth):
        return yardstick(truth.of(job), pool, starts, among=among)
    # The job differs from start to start, so they cannot share a grid.
    return joined_yardstick(
        [yardstick(truth.at(start).of(job), pool, [start], among=among) for start in starts]
    )


def joined_yardstick(parts: Sequence[Yardstick]) -> Yardstick:
    """Join parts of the clairvoyant's table; parts whose plans are the best count with nothing to gain."""
    table = np.concatenate([part.table for part in parts])
    if all(part.spare_usd is None for part in parts):
        return Yardstick(table, None)
    spares = [np.zeros(len(part.table)) if part.spare_usd is None else part.spare_usd for part in parts]
    return Yardstick(table, np.concatenate(spares))
