"""Policies side by side: the same job from the same starts, with the clairvoyant beside them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.errors import InputError, shown
from slacktide.core.register import Spec
from slacktide.core.types import Allocation, Job, Reason
from slacktide.market.base import Market, Pool
from slacktide.market.forecast.base import Forecaster
from slacktide.market.pools.statistics import stock_outs_said
from slacktide.physics.truth import AS_SAID, Truth, Truths
from slacktide.policies.base import policies as register
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.no_checkpoints import keeping
from slacktide.policies.view import Policy, View
from slacktide.results.comparison import Comparison
from slacktide.results.run import CLAIRVOYANT, Run, RunResult, result_of
from slacktide.results.runs import AllRuns, Runs, column
from slacktide.simulation import batch, plain
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.pieces import Piece, cut, joined, joined_yardstick
from slacktide.simulation.plain import Setting
from slacktide.simulation.summaries import policy_of, summaries
from slacktide.solvers.clairvoyant.clairvoyant import Plan, Yardstick, clairvoyant, yardstick

COMPILE_FROM = 40
"""With fewer runs than this the plain loop is done before compiled code is loaded."""

Progress = Callable[[int, int], None]
"""Called with the work done so far and the work in all."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Which slots of a market a job is started in: a number of them evenly spread, or every so often."""

    count: int | None = 24
    every_hours: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise InputError(f"starts must be >= 1, got {self.count}")
        if self.every_hours is not None and not (math.isfinite(self.every_hours) and self.every_hours > 0):
            raise InputError(f"starts: the time between two starts must be > 0, got {self.every_hours:g} h")

    def of(self, job: Job, pool: Pool) -> list[int]:
        """Return the starts in this pool that leave the whole deadline inside the market."""
        last = plain.last_start(job, pool)
        if last < 0:
            raise InputError(
                f"pool {shown(pool.name)}: the market must cover the deadline of {job.deadline_hours:g} h, "
                f"got {pool.hours:g} h of it; use a longer market or an earlier deadline"
            )
        if self.every_hours is not None:
            return list(range(0, last + 1, max(1, round(self.every_hours / pool.slot_hours))))
        count = min(self.count or 1, last + 1)
        return [round(start) for start in np.linspace(0, last, count)]


class Replay:
    """Hold what a plan made with knowledge of the future says; no policy, but runs like one."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def decide(self, view: View) -> Allocation:
        if view.slot >= len(self._plan.spot_gpus):
            return Allocation(reason=Reason("plan-ended"))
        spot, on_demand = self._plan.spot_gpus[view.slot], self._plan.on_demand_gpus[view.slot]
        return Allocation(int(spot), int(on_demand), reason=Reason("knows-the-future"))


def label(policy: Policy) -> str:
    """Return a policy's name with the parameters that are not at their defaults."""
    name = register.name_of(policy)
    if isinstance(policy, DeadlineGuard):
        return f"{name}({label(policy.inner)})"
    words = [f"{key}={value}" for key, value in register.changed(policy).items()]
    return f"{name}({','.join(words)})" if words else name


def guarded(policy: Policy, job: Job) -> Policy:
    """Return the policy as it will run: behind the deadline guard when the deadline is hard.

    For a job without checkpoints it keeps workers that have work to lose.
    """
    if isinstance(policy, DeadlineGuard):
        return DeadlineGuard(keeping(policy.inner, job))
    acting = keeping(policy, job)
    return DeadlineGuard(acting) if job.hard else acting


def compare(
    job: Job,
    market: Market | Pool,
    policies: Sequence[Spec | Policy],
    *,
    pool: str | None = None,
    starts: Starts | Sequence[int] | None = None,
    forecaster: Forecaster | None = None,
    truth: Truths = AS_SAID,
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> Comparison:
    """Run every policy, and the clairvoyant, from every start in every pool (or in one).

    All of them meet the same truth from a start; only the clairvoyant knows it beforehand. Where the runs are
    done is up to `spread`, and changes nothing of them.
    """
    if isinstance(market, Pool):
        market = Market((market,), source=market.name)
    pools = market.pools if pool is None else (market.pool(pool),)
    makers = named(policies)
    chosen = starts if starts is not None else Starts()
    plans = {
        place.name: chosen.of(job, place) if isinstance(chosen, Starts) else list(chosen) for place in pools
    }
    sweep = Sweep(job, market, makers, forecaster, truth, sum(map(len, plans.values())))
    parts, spares = _swept(sweep, plans, spread, progress or (lambda done, total: None))
    summary = tuple(summaries(parts, [*makers, CLAIRVOYANT]))
    detail = _typical(sweep, parts, spread)
    spared = float(np.mean(spares)) if spares else None
    assumed = (*market.assumptions, *stock_outs([(place, job.fastest_width) for place in pools]))
    return Comparison(job, market.source, pools, assumed, AllRuns(parts), summary, detail, spared, truth)


def stock_outs(places: Sequence[tuple[Pool, int]]) -> tuple[str, ...]:
    """Say how often on demand was out of stock for a job of these widths, and what that means; or nothing."""
    told = stock_outs_said(places)
    if not told:
        return ()
    return (
        f"On-demand GPUs were out of stock ({told}): then nobody can promise to be on time, and the "
        "clairvoyant, who is not limited by it, may be out of reach.",
    )


class Sweep(NamedTuple):
    """What all pieces of a back-test share."""

    job: Job
    market: Market
    policies: Mapping[str, Policy]
    forecaster: Forecaster | None
    truth: Truths
    starts: int
    """In all pools together."""

    def setting(self, pool: Pool) -> Setting:
        """Return what all policies share on a pool."""
        return setting_for(self.market, pool, self.forecaster, self.truth)


def _swept(
    sweep: Sweep, plans: Mapping[str, Sequence[int]], spread: Spread, report: Progress
) -> tuple[list[Sequence[Run]], list[float]]:
    """Run all pieces and put them together: by pool each policy, then the clairvoyant."""
    todo = [
        piece
        for pool, starts in plans.items()
        for policy in (*sweep.policies, None)
        for piece in cut(pool, policy, starts, few=len(starts) < COMPILE_FROM)
    ]
    found: dict[tuple[str, str | None], list[Any]] = {}
    total, done = sum(len(piece.starts) for piece in todo), 0
    for piece, came in zip(todo, spread.each(do_piece, sweep, todo), strict=True):
        found.setdefault((piece.pool, piece.policy), []).append(came)
        done += len(piece.starts)
        report(done, total)
    parts: list[Sequence[Run]] = []
    spares: list[float] = []
    for (pool, policy), pieces in found.items():
        if policy is not None:
            parts.append(joined(pieces))
            continue
        best = joined_yardstick(pieces)
        place = sweep.market.pool(pool)
        parts.append(batch.runs_of(sweep.job, place, plans[pool], best.table, name=CLAIRVOYANT))
        spares += [] if best.spare_usd is None else best.spare_usd.tolist()
    return parts, spares


def do_piece(sweep: Sweep, piece: Piece) -> Sequence[Run] | Yardstick:
    """Run one piece of a back-test."""
    pool = sweep.market.pool(piece.pool)
    if piece.policy is None:
        return solve_yardstick(sweep.job, pool, piece.starts, among=sweep.starts, truth=sweep.truth)
    policy, setting = sweep.policies[piece.policy], sweep.setting(pool)
    return run_many(sweep.job, pool, policy, piece.starts, name=piece.policy, setting=setting, few=piece.few)


def setting_for(
    market: Market, pool: Pool, forecaster: Forecaster | None, truth: Truths = AS_SAID
) -> Setting:
    """Return what all policies share on a pool of a market: forecaster, the other pools' past, the truth."""
    others = tuple(other for other in market.pools if other is not pool)
    return Setting(forecaster=forecaster or Setting().forecaster, neighbours=others, truth=truth)


def run_many(
    job: Job,
    pool: Pool,
    policy: Policy,
    starts: Sequence[int],
    *,
    name: str,
    setting: Setting = plain.USUAL,
    few: bool | None = None,
) -> Sequence[Run]:
    """Run one policy from many starts: compiled where it can be and is worth it, plain elsewhere.

    Where these are but some of the starts, `few` says whether all of them are too few to be worth it.
    """
    acting = guarded(policy, job)
    small = (len(starts) < COMPILE_FROM if few is None else few) and not batch.needs_preparing(acting)
    if small or not batch.can_compile(acting, pool):
        ready = (acting if small else batch.prepare(acting, job, pool, start, setting) for start in starts)
        return [
            dataclasses.replace(plain.run(job, pool, one, start=start, name=name, setting=setting), slots=())
            for one, start in zip(ready, starts, strict=True)
        ]
    return batch.run_many(job, pool, acting, starts, name=name, setting=setting)


def run_clairvoyant(job: Job, pool: Pool, starts: Sequence[int]) -> Runs:
    """Run the clairvoyant's plan from many starts."""
    return run_yardstick(job, pool, starts)[0]


def run_yardstick(
    job: Job,
    pool: Pool,
    starts: Sequence[int],
    *,
    among: int | None = None,
    tell: Callable[[int], None] | None = None,
    truth: Truths = AS_SAID,
) -> tuple[Runs, list[float]]:
    """Run the clairvoyant's plan from many starts, which may be some among more.

    It knows what the job is, too. Returns beside the runs what the best plan could gain from each start,
    where the job is too wide to be sure of it; nothing where the plans are the best.
    """
    found = solve_yardstick(job, pool, starts, among=among, tell=tell, truth=truth)
    runs = batch.runs_of(job, pool, starts, found.table, name=CLAIRVOYANT)
    return runs, [] if found.spare_usd is None else found.spare_usd.tolist()


def solve_yardstick(
    job: Job,
    pool: Pool,
    starts: Sequence[int],
    *,
    among: int | None = None,
    tell: Callable[[int], None] | None = None,
    truth: Truths = AS_SAID,
) -> Yardstick:
    """Solve the job that it is from many starts, which may be some among more."""
    if isinstance(truth, Truth):
        return yardstick(truth.of(job), pool, starts, among=among, tell=tell)
    return _yardstick_each(job, pool, starts, truth, among or len(starts), tell or (lambda done: None))


def _yardstick_each(
    job: Job, pool: Pool, starts: Sequence[int], truth: Truths, among: int, tell: Callable[[int], None]
) -> Yardstick:
    """Solve from each start the job that it is there."""
    found = []
    for start in starts:
        found.append(yardstick(truth.at(start).of(job), pool, [start], among=among))
        tell(len(found))
    return joined_yardstick(found)


def run_in_detail(
    job: Job,
    pool: Pool,
    policy: Policy | None,
    start: int,
    *,
    name: str,
    setting: Setting = plain.USUAL,
    among: int = 1,
) -> Run:
    """Run from one start, among so many, and keep every slot; no policy stands for the clairvoyant."""
    if policy is not None:
        ready = batch.prepare(guarded(policy, job), job, pool, start, setting)
        return plain.run(job, pool, ready, start=start, name=name, setting=setting)
    true = setting.truth.at(start).of(job)
    free = dataclasses.replace(true, checkpoint_hours=0.0, max_cost_usd=None, after_deadline="finish-fast")
    return plain.run(free, pool, Replay(clairvoyant(true, pool, start, among=among)), start=start, name=name)


def named(policies: Sequence[Spec | Policy]) -> dict[str, Policy]:
    """Make policies and name them; raises InputError for none, or for one that is given twice."""
    if not policies:
        raise InputError("at least one policy must be given, got none")
    made = [register.make(policy) for policy in policies]
    named = {label(policy): policy for policy in made}
    if len(named) != len(made):
        raise InputError(f"each policy must be given once, got {[label(policy) for policy in made]}")
    return named


class _Spot(NamedTuple):
    """A start that is run in detail."""

    policy: str | None
    pool: str
    start: int
    among: int


def _typical(sweep: Sweep, parts: Sequence[Sequence[Run]], spread: Spread) -> tuple[RunResult, ...]:
    """Run in detail the start where the last policy's bill is the median of its bills."""
    last = AllRuns([part for part in parts if policy_of(part) == list(sweep.policies)[-1]])
    costs = np.concatenate([column(part, "cost_usd") for part in last.parts])
    middle = last[int(np.argsort(costs, kind="stable")[len(last) // 2])]
    every = [_Spot(name, middle.pool, middle.start_slot, len(last)) for name in (*sweep.policies, None)]
    return tuple(spread.each(do_in_detail, sweep, every))


def do_in_detail(sweep: Sweep, spot: _Spot) -> RunResult:
    """Run one policy, or the clairvoyant, from one start, and keep every slot."""
    pool = sweep.market.pool(spot.pool)
    policy = None if spot.policy is None else sweep.policies[spot.policy]
    name, setting = spot.policy or CLAIRVOYANT, sweep.setting(pool)
    run = run_in_detail(sweep.job, pool, policy, spot.start, name=name, setting=setting, among=spot.among)
    return result_of(run, sweep.job, pool)
