"""Policies side by side for a job that may move: those that roam, those that stay, and what was possible.

A policy that stays runs in every pool, and the pool that was best for it stands in the comparison; so does
the clairvoyant, once over all pools and once in the best one. All begin at the same times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.journal.events import Sight
from slacktide.market.base import Market, Pool
from slacktide.market.forecast.base import Forecaster
from slacktide.physics.truth import AS_SAID, Truth, Truths
from slacktide.policies.pools.roams import roams
from slacktide.policies.view import Policy
from slacktide.results.comparison import Comparison, PolicySummary
from slacktide.results.run import IN_THE_POOL, OVER_POOLS, Run, RunResult, result_of
from slacktide.results.runs import AllRuns, column
from slacktide.simulation import batch, compare
from slacktide.simulation.compare import Progress, Starts
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.pieces import cut, joined, joined_yardstick
from slacktide.simulation.plain import Setting, check_start, follow, last_start, run_over_pools
from slacktide.simulation.pool_options import PoolOptions
from slacktide.simulation.summaries import summarise
from slacktide.solvers.clairvoyant.clairvoyant import Yardstick
from slacktide.solvers.pools.optimum import optimum


class Sweep(NamedTuple):
    """What all tasks of a back-test over pools share."""

    ground: PoolOptions
    market: Market
    policies: Mapping[str, Policy]
    forecaster: Forecaster | None
    truth: Truths
    sight: Sight
    starts: int

    def setting(self, pool: Pool, truth: Truths) -> Setting:
        """Return what all policies share in a pool."""
        return compare.setting_for(self.market, pool, self.forecaster, truth)


class Task(NamedTuple):
    """Some starts of one policy in one pool, or over all of them."""

    policy: str | None
    """None: the clairvoyant."""
    pool: int | None
    """None: over all pools."""
    starts: tuple[int, ...]
    """Slots of the first pool."""
    few: bool


class Part(NamedTuple):
    """All runs of a policy, or of the clairvoyant, in one pool or over all of them."""

    name: str
    runs: Sequence[Run]
    pool: int | None


class Row(NamedTuple):
    """A part that is summed up."""

    part: Part
    summary: PolicySummary


def compare_over_pools(
    ground: PoolOptions,
    market: Market,
    policies: Sequence[Spec | Policy],
    *,
    starts: Starts | Sequence[int] | None = None,
    sight: Sight = "feed",
    forecaster: Forecaster | None = None,
    truth: Truths = AS_SAID,
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> Comparison:
    """Run every policy, and the clairvoyant, from every start: over all pools, or in each of them.

    Starts are slots of the first pool of the ground.
    """
    makers = compare.named(policies)
    chosen = common_starts(ground, starts if starts is not None else Starts())
    sweep = Sweep(ground, market, makers, forecaster, truth, sight, len(chosen))
    covered = [at for at in range(len(ground.pools)) if _covers(ground, at, chosen)]
    report = progress or (lambda done, total: None)
    rows = _measured(ground, _swept(sweep, chosen, covered, spread, report))
    shown = [_best(ground.job, rows, name) for name in (*makers, IN_THE_POOL, OVER_POOLS)]
    return Comparison(
        ground.job,
        market.source,
        ground.pools,
        (*market.assumptions, *compare.stock_outs(_fastest(ground)), *_left_out(ground, covered)),
        AllRuns([row.part.runs for row in shown]),
        tuple(row.summary for row in shown),
        _typical(sweep, [row.part for row in shown], spread),
        None,
        truth,
        sight,
        tuple(row.summary for row in rows if row.part.pool is not None),
    )


def common_starts(ground: PoolOptions, starts: Starts | Sequence[int]) -> list[int]:
    """Return the starts, as slots of the first pool: in the time that all pools cover, if it is enough."""
    if not isinstance(starts, Starts):
        for start in starts:
            check_start(ground.job, ground.pools[0], start)
        return list(starts)
    own = ground.pools[0]
    first = max(-_ahead(own, pool) for pool in ground.pools)
    last = min(len(pool) - _ahead(own, pool) for pool in ground.pools)
    if last - first < len(own) - last_start(ground.job, own):
        return starts.of(ground.job, own)
    return [first + slot for slot in starts.of(ground.job, own.window(first, last))]


def _ahead(own: Pool, pool: Pool) -> int:
    """Return how many slots of a pool lie before the first slot of another."""
    return round((own.start - pool.start) / timedelta(hours=own.slot_hours))


def _covers(ground: PoolOptions, at: int, starts: Sequence[int]) -> bool:
    """Whether a job could stay in a pool from all starts."""
    pool, ahead = ground.pools[at], _ahead(ground.pools[0], ground.pools[at])
    return min(starts) + ahead >= 0 and max(starts) + ahead <= last_start(ground.job, pool)


def _fastest(ground: PoolOptions) -> list[tuple[Pool, int]]:
    return [(pool, job.fastest_width) for pool, job in zip(ground.pools, ground.places.jobs, strict=True)]


def _left_out(ground: PoolOptions, covered: Sequence[int]) -> tuple[str, ...]:
    names = [pool.name for at, pool in enumerate(ground.pools) if at not in covered]
    if not names:
        return ()
    return (f"{', '.join(names)}: not recorded from all starts to their deadlines, so nothing stayed there.",)


# ---------------------------------------------------------------------- running


def _swept(
    sweep: Sweep, starts: Sequence[int], covered: Sequence[int], spread: Spread, report: Progress
) -> list[Part]:
    """Run all tasks, and put those of each policy and pool together."""
    few = len(starts) < compare.COMPILE_FROM
    todo = [
        task
        for name in (*sweep.policies, None)
        for pool in _pools_for(sweep, name, covered)
        for task in _cut(name, pool, starts, few)
    ]
    found: dict[tuple[str | None, int | None], list[Any]] = {}
    total, done = sum(len(task.starts) for task in todo), 0
    for task, came in zip(todo, spread.each(do_task, sweep, todo), strict=True):
        found.setdefault((task.policy, task.pool), []).append(came)
        done += len(task.starts)
        report(done, total)
    return [_part(sweep, name, pool, starts, pieces) for (name, pool), pieces in found.items()]


def _pools_for(sweep: Sweep, name: str | None, covered: Sequence[int]) -> list[int | None]:
    """Return where a policy runs: over pools, or in each of them; the clairvoyant does both."""
    if name is None:
        return [*covered, None]
    return [None] if roams(sweep.policies[name]) else [*covered]


def _cut(name: str | None, pool: int | None, starts: Sequence[int], few: bool) -> list[Task]:
    if pool is None:  # a run over pools takes about a second
        return [Task(name, None, (start,), few) for start in starts]
    return [Task(name, pool, piece.starts, few) for piece in cut("", name, starts, few=few)]


def do_task(sweep: Sweep, task: Task) -> Sequence[Run] | Yardstick:
    """Run some starts of one policy, or of the clairvoyant."""
    if task.pool is None:
        return [_without_slots(_among_pools(sweep, task.policy, start)) for start in task.starts]
    if isinstance(sweep.truth, Truth):
        return _stay(sweep, task, task.pool, task.starts, sweep.truth)
    # Pools may count their slots from different times, but what the job is goes by the time.
    each = [_stay(sweep, task, task.pool, (start,), sweep.truth.at(start)) for start in task.starts]
    yardsticks = [one for one in each if isinstance(one, Yardstick)]
    runs = [one for one in each if not isinstance(one, Yardstick)]
    return joined_yardstick(yardsticks) if yardsticks else joined(runs)


def _stay(
    sweep: Sweep, task: Task, at: int, starts: Sequence[int], truth: Truth
) -> Sequence[Run] | Yardstick:
    """Run some starts in one pool."""
    pool, job = sweep.ground.pools[at], sweep.ground.places.jobs[at]
    slots = [start + _ahead(sweep.ground.pools[0], pool) for start in starts]
    if task.policy is None:
        return compare.solve_yardstick(job, pool, slots, among=sweep.starts, truth=truth)
    policy, setting = sweep.policies[task.policy], sweep.setting(pool, truth)
    return compare.run_many(job, pool, policy, slots, name=task.policy, setting=setting, few=task.few)


def _among_pools(sweep: Sweep, name: str | None, start: int) -> Run:
    """Run one policy, or the clairvoyant, over all pools from one start, and keep every slot."""
    ground, truth = sweep.ground, sweep.truth.at(start)
    if name is not None:
        acting = compare.guarded(sweep.policies[name], ground.job)
        usual = Setting()
        setting = Setting(forecaster=sweep.forecaster or usual.forecaster, truth=truth)
        return run_over_pools(ground, acting, start=start, name=name, setting=setting, sight=sweep.sight)
    jobs, hours, usd, _ = ground.places
    plan = optimum([truth.of(job) for job in jobs], ground.pools, start, hours, usd)
    return follow(ground, plan, start=start, name=OVER_POOLS, truth=truth)


def _without_slots(one: Run) -> Run:
    return dataclasses.replace(one, slots=())


def _part(
    sweep: Sweep, name: str | None, pool: int | None, starts: Sequence[int], pieces: Sequence[Any]
) -> Part:
    """Put the pieces of a policy in a pool together."""
    runs: Sequence[Run]
    if name is None and pool is not None:
        place, best = sweep.ground.pools[pool], joined_yardstick(pieces)
        slots = [start + _ahead(sweep.ground.pools[0], place) for start in starts]
        runs = batch.runs_of(sweep.ground.places.jobs[pool], place, slots, best.table, name=IN_THE_POOL)
    else:
        runs = joined(pieces)
    return Part(name or (OVER_POOLS if pool is None else IN_THE_POOL), runs, pool)


# ---------------------------------------------------------------------- what stands in the comparison


def _measured(ground: PoolOptions, parts: Sequence[Part]) -> list[Row]:
    """Sum up all parts, beside what the clairvoyant paid over pools."""
    (best,) = (part for part in parts if part.name == OVER_POOLS)
    yardstick = sum(column(best.runs, "cost_usd").tolist())
    return [
        Row(part, dataclasses.replace(summarise(part.name, [part.runs], yardstick), pool=_name(ground, part)))
        for part in parts
    ]


def _name(ground: PoolOptions, part: Part) -> str:
    return "" if part.pool is None else ground.pools[part.pool].name


def _best(job: Job, rows: Sequence[Row], name: str) -> Row:
    """Return the row of a policy: in the pool that was best, if it stays in one."""
    return max((row for row in rows if row.part.name == name), key=lambda row: _worth(job, row.summary))


def _worth(job: Job, one: PolicySummary) -> tuple[float, float]:
    """Return by what pools are ranked: in time, then cheap; with a soft deadline what is left of value."""
    if not job.hard and job.value_usd > 0:
        return (one.mean_utility_usd, 0.0)
    return (one.on_time_share, -one.mean_cost_usd)


# ---------------------------------------------------------------------- one start in detail


class _Spot(NamedTuple):
    """A start of a row that is run in detail."""

    policy: str | None
    pool: int | None
    start: int


def _typical(sweep: Sweep, shown: Sequence[Part], spread: Spread) -> tuple[RunResult, ...]:
    """Run in detail the start where the last policy over pools has the median of its bills."""
    mine = [part for part in shown if part.name in sweep.policies]
    last = ([part for part in mine if part.pool is None] or mine)[-1]
    costs = column(last.runs, "cost_usd")
    middle = last.runs[int(np.argsort(costs, kind="stable")[len(costs) // 2])].start_slot
    at = 0 if last.pool is None else last.pool
    start = middle - _ahead(sweep.ground.pools[0], sweep.ground.pools[at])
    spots = [_Spot(part.name if part.name in sweep.policies else None, part.pool, start) for part in shown]
    return tuple(spread.each(do_in_detail, sweep, spots))


def do_in_detail(sweep: Sweep, spot: _Spot) -> RunResult:
    """Run one row of the comparison from one start, and keep every slot."""
    ground = sweep.ground
    if spot.pool is None:
        done = _among_pools(sweep, spot.policy, spot.start)
        return result_of(done, ground.job, ground.pools[0], ground.pools)
    pool, job = ground.pools[spot.pool], ground.places.jobs[spot.pool]
    policy = None if spot.policy is None else sweep.policies[spot.policy]
    slot = spot.start + _ahead(ground.pools[0], pool)
    name, setting = spot.policy or IN_THE_POOL, sweep.setting(pool, sweep.truth.at(spot.start))
    done = compare.run_in_detail(job, pool, policy, slot, name=name, setting=setting, among=sweep.starts)
    return result_of(done, ground.job, pool)


__all__ = ["Sweep", "common_starts", "compare_over_pools", "do_in_detail", "do_task"]
