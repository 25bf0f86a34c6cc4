"""Policies side by side: the same job from the same starts, with the clairvoyant beside them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.arrays import Floats
from slacktide.backtesting import batch, plain
from slacktide.backtesting.plain import Setting
from slacktide.deciding import Policy, View
from slacktide.errors import InputError, shown
from slacktide.forecast.base import Forecaster
from slacktide.market.base import Market, Pool
from slacktide.policy.base import policies as register
from slacktide.policy.deadline_guard import DeadlineGuard
from slacktide.policy.no_checkpoints import keeping
from slacktide.register import Spec
from slacktide.results.comparison import Comparison, PolicySummary
from slacktide.results.run import CLAIRVOYANT, Run, RunResult, result_of
from slacktide.results.runs import AllRuns, Runs, column
from slacktide.solve.clairvoyant import Plan, Yardstick, clairvoyant, yardstick
from slacktide.truth import AS_SAID, Truth, Truths
from slacktide.types import Allocation, Job, Reason

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
) -> Comparison:
    """Run every policy, and the clairvoyant, from every start in every pool (or in one).

    All of them meet the same truth from a start; only the clairvoyant knows it beforehand.
    """
    if isinstance(market, Pool):
        market = Market((market,), source=market.name)
    pools = market.pools if pool is None else (market.pool(pool),)
    makers = _named(policies)
    report = progress or (lambda done, total: None)
    chosen = starts if starts is not None else Starts()
    plans = {
        place.name: chosen.of(job, place) if isinstance(chosen, Starts) else list(chosen) for place in pools
    }
    starts_in_all = sum(len(slots) for slots in plans.values())
    total = starts_in_all * (len(makers) + 1)
    parts: list[Sequence[Run]] = []
    done = 0
    spares: list[float] = []
    for place in pools:
        for name, policy in makers.items():
            setting = setting_for(market, place, forecaster, truth)
            parts.append(run_many(job, place, policy, plans[place.name], name=name, setting=setting))
            done += len(parts[-1])
            report(done, total)
        best, spare = run_yardstick(
            job, place, plans[place.name], among=starts_in_all, tell=_after(report, done, total), truth=truth
        )
        parts, spares, done = [*parts, best], [*spares, *spare], done + len(best)
    summary = tuple(summaries(parts, [*makers, CLAIRVOYANT]))
    detail = _typical(job, market, pools, makers, parts, forecaster, truth)
    spared = float(np.mean(spares)) if spares else None
    return Comparison(
        job, market.source, pools, market.assumptions, AllRuns(parts), summary, detail, spared, truth
    )


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
) -> Sequence[Run]:
    """Run one policy from many starts: compiled where it can be, plain where it cannot."""
    acting = guarded(policy, job)
    few = len(starts) < COMPILE_FROM and not batch.needs_preparing(acting)
    if few or not batch.can_compile(acting):
        return [
            dataclasses.replace(
                plain.run(job, pool, acting, start=start, name=name, setting=setting), slots=()
            )
            for start in starts
        ]
    return batch.run_many(job, pool, acting, starts, name=name, setting=setting)


def _after(report: Progress, before: int, total: int) -> Callable[[int], None]:
    """Return how the progress of a part is told, so much having been done before it."""
    return lambda done: report(before + done, total)


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
    if isinstance(truth, Truth):
        found = yardstick(truth.of(job), pool, starts, among=among, tell=tell)
    else:
        found = _yardstick_each(job, pool, starts, truth, among or len(starts), tell or (lambda done: None))
    runs = batch.runs_of(job, pool, starts, found.table, name=CLAIRVOYANT)
    return runs, [] if found.spare_usd is None else found.spare_usd.tolist()


def _yardstick_each(
    job: Job, pool: Pool, starts: Sequence[int], truth: Truths, among: int, tell: Callable[[int], None]
) -> Yardstick:
    """Solve from each start the job that it is there."""
    found = []
    for start in starts:
        found.append(yardstick(truth.at(start).of(job), pool, [start], among=among))
        tell(len(found))
    spares = [0.0 if one.spare_usd is None else float(one.spare_usd[0]) for one in found]
    exact = all(one.spare_usd is None for one in found)
    return Yardstick(np.concatenate([one.table for one in found]), None if exact else np.array(spares))


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


def _named(policies: Sequence[Spec | Policy]) -> dict[str, Policy]:
    if not policies:
        raise InputError("at least one policy must be given, got none")
    made = [register.make(policy) for policy in policies]
    named = {label(policy): policy for policy in made}
    if len(named) != len(made):
        raise InputError(f"each policy must be given once, got {[label(policy) for policy in made]}")
    return named


def summaries(parts: Sequence[Sequence[Run]], names: Sequence[str]) -> list[PolicySummary]:
    """Sum up the runs of each of these policies; each part is of one policy in one pool."""
    best = sum(usd for part in parts if _of(part) == CLAIRVOYANT for usd in column(part, "cost_usd").tolist())
    return [_summarise(name, [part for part in parts if _of(part) == name], best) for name in names]


def _of(part: Sequence[Run]) -> str:
    """Return whose runs these are."""
    return part.policy if isinstance(part, Runs) else part[0].policy


def _summarise(name: str, mine: Sequence[Sequence[Run]], yardstick: float) -> PolicySummary:
    def all_of(figure: str) -> Floats:
        return np.concatenate([column(part, figure) for part in mine])

    costs = all_of("cost_usd")
    paid = sum(costs.tolist())
    over = paid / yardstick if yardstick > 0 else (1.0 if paid <= 0 else math.inf)
    p10, p50, p90 = np.percentile(costs, (10, 50, 90))
    return PolicySummary(
        policy=name,
        mean_cost_usd=paid / len(costs),
        mean_utility_usd=float(np.mean(all_of("utility_usd"))),
        on_time_share=float(np.mean(all_of("on_time"))),
        cost_over_clairvoyant=over,
        p10_cost_usd=float(p10),
        p50_cost_usd=float(p50),
        p90_cost_usd=float(p90),
        mean_finish_hours=float(np.mean(all_of("finish_hours"))),
        mean_spot_gpu_hours=float(np.mean(all_of("spot_gpu_hours"))),
        mean_on_demand_gpu_hours=float(np.mean(all_of("on_demand_gpu_hours"))),
        mean_preemptions=float(np.mean(all_of("preemptions"))),
    )


def _typical(
    job: Job,
    market: Market,
    pools: Sequence[Pool],
    makers: dict[str, Policy],
    parts: Sequence[Sequence[Run]],
    forecaster: Forecaster | None,
    truth: Truths,
) -> tuple[RunResult, ...]:
    """Run in detail the start where the last policy's bill is the median of its bills."""
    last = AllRuns([part for part in parts if _of(part) == list(makers)[-1]])
    costs = np.concatenate([column(part, "cost_usd") for part in last.parts])
    middle = last[int(np.argsort(costs, kind="stable")[len(last) // 2])]
    place = next(pool for pool in pools if pool.name == middle.pool)
    every: dict[str, Policy | None] = {**makers, CLAIRVOYANT: None}
    setting = setting_for(market, place, forecaster, truth)
    runs_here = [
        run_in_detail(job, place, policy, middle.start_slot, name=name, setting=setting, among=len(last))
        for name, policy in every.items()
    ]
    return tuple(result_of(run, job, place) for run in runs_here)
