"""The verbs of the product: what the command line does, and what Python users call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.backtesting.compare import (
    CLAIRVOYANT,
    Comparison,
    Progress,
    Starts,
    compare,
    label,
)
from slacktide.backtesting.plain import Run
from slacktide.errors import InfeasibleError
from slacktide.market.base import Market, Pool
from slacktide.market.series import resample
from slacktide.market.source import open_market
from slacktide.policy.base import policies as register
from slacktide.register import Spec
from slacktide.types import MAX_GPUS, Job, Policy

DEFAULT_POLICIES: tuple[str, ...] = ("on-demand", "maximal-spot", "uniform-progress")
DEFAULT_MARKET = "synthetic:h100"
RECENT_HOURS = 14 * 24.0
"""How far back a plan looks for starts."""
RECENT_STARTS = 200


@dataclass(frozen=True, slots=True)
class Range:
    """A quantity that is not known yet: its tenth, fiftieth and ninetieth percentile."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one policy would probably do for a job."""

    policy: str
    cost_usd: Range
    finish_hours: Range
    on_time_share: float
    mean_cost_usd: float
    mean_spot_gpu_hours: float
    mean_on_demand_gpu_hours: float
    mean_preemptions: float


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What will probably happen to a job before anyone pays, and what that rests on."""

    job: Job
    market: str
    policy: str
    """The policy that would run."""
    outlooks: tuple[Outlook, ...]
    """Every policy that was tried, the chosen one first, the clairvoyant last."""
    starts: int
    assumptions: tuple[str, ...]


def backtest(
    job: Job,
    market: Market | Pool | str = DEFAULT_MARKET,
    policies: Sequence[Spec | Policy] = DEFAULT_POLICIES,
    *,
    pool: str | None = None,
    slot_hours: float | None = None,
    starts: Starts | Sequence[int] | int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Back-test policies for a job from many starts of a market, the clairvoyant beside them.

    `market` is a Market, a Pool, or what `--market` takes: a file or `synthetic:PROFILE`.
    Without `pool` every pool of the market is tried. Raises InputError when the market is
    shorter than the deadline.
    """
    chosen = Starts(count=starts) if isinstance(starts, int) else starts
    return compare(job, _market(market, slot_hours), policies, pool=pool, starts=chosen, progress=progress)


def plan(
    job: Job,
    market: Market | Pool | str = DEFAULT_MARKET,
    policy: Spec | Policy = "uniform-progress",
    *,
    others: Sequence[Spec | Policy] = DEFAULT_POLICIES,
    pool: str | None = None,
    slot_hours: float | None = None,
    progress: Progress | None = None,
) -> JobPlan:
    """Say what a job would probably cost and when it would be done, from recent starts of the market.

    Raises InfeasibleError when the job cannot be done in time, or not for its greatest cost.
    """
    check_feasible(job)
    place = _market(market, slot_hours)
    made = {label(one): one for one in map(register.make, (policy, *others))}
    recent = Market(tuple(_recent(pool_, job) for pool_ in place.pools), place.source, place.assumptions)
    starts = Starts(count=max(1, RECENT_STARTS // (1 if pool else len(recent))))
    result = compare(job, recent, list(made.values()), pool=pool, starts=starts, progress=progress)
    _check_affordable(job, result)
    names = [*made, CLAIRVOYANT]
    outlooks = tuple(_outlook(name, [run for run in result.runs if run.policy == name]) for name in names)
    count = len(result.runs) // len(names)
    return JobPlan(job, place.source, names[0], outlooks, count, _assumptions(result, count))


def check_feasible(job: Job) -> None:
    """Raise InfeasibleError when not even on-demand GPUs from the start are in time."""
    soonest = job.restart_hours + job.work_gpu_hours / job.speedup(job.fastest_width)
    limit = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    if soonest <= limit + 1e-9:
        return
    what = "deadline" if job.hard else "time after which the result is worthless"
    most = (limit - job.restart_hours) * job.speedup(job.fastest_width)
    remedies = [f"the nearest time that can be met is {soonest:.4g} h"]
    wider = next((n for n in range(job.max_gpus + 1, MAX_GPUS + 1) if _fits(job, n, limit)), None)
    if wider is not None:
        remedies.append(f"{wider} GPUs would do")
    if most > 0:
        remedies.append(f"{most:.4g} gpu-hours of work would fit")
    raise InfeasibleError(
        f"the {what} of {limit:g} h cannot be met: on {job.fastest_width} on-demand GPUs from the start "
        f"the job takes {soonest:.4g} h; {', or '.join(remedies)}"
    )


def _fits(job: Job, gpus: int, limit: float) -> bool:
    return job.restart_hours + job.work_gpu_hours / job.speedup(gpus) <= limit


def _check_affordable(job: Job, result: Comparison) -> None:
    if job.max_cost_usd is None:
        return
    cheapest = min(run.cost_usd for run in result.runs if run.policy == CLAIRVOYANT)
    if cheapest > job.max_cost_usd:
        raise InfeasibleError(
            f"max_cost must allow at least {cheapest:.2f} USD, which is what one who knows the future "
            f"would have paid from the best recent start, got {job.max_cost_usd:.2f} USD"
        )


def _market(market: Market | Pool | str, slot_hours: float | None) -> Market:
    if isinstance(market, str):
        return open_market(market, slot_hours=slot_hours)
    if isinstance(market, Pool):
        market = Market((market,), source=market.name)
    return market if slot_hours is None else resample(market, slot_hours)


def _recent(pool: Pool, job: Job) -> Pool:
    """Return the end of a pool that holds the recent starts and their deadlines."""
    slots = math.ceil((RECENT_HOURS + job.deadline_hours) / pool.slot_hours)
    return pool.window(max(0, len(pool) - slots), len(pool))


def _outlook(name: str, runs: Sequence[Run]) -> Outlook:
    return Outlook(
        policy=name,
        cost_usd=_range([run.cost_usd for run in runs]),
        finish_hours=_range([run.finish_hours for run in runs]),
        on_time_share=float(np.mean([run.on_time for run in runs])),
        mean_cost_usd=float(np.mean([run.cost_usd for run in runs])),
        mean_spot_gpu_hours=float(np.mean([run.spot_gpu_hours for run in runs])),
        mean_on_demand_gpu_hours=float(np.mean([run.on_demand_gpu_hours for run in runs])),
        mean_preemptions=float(np.mean([run.preemptions for run in runs])),
    )


def _range(values: Sequence[float]) -> Range:
    # "nearest" keeps an unfinished run's infinity from spoiling its finite neighbours.
    return Range(*(float(v) for v in np.percentile(values, (10, 50, 90), method="nearest")))


def _assumptions(result: Comparison, count: int) -> tuple[str, ...]:
    job = result.job
    hours = sum(pool.hours for pool in result.pools)
    first, last = min(pool.start for pool in result.pools), max(pool.end for pool in result.pools)
    words = [
        f"the market will be as it was from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC "
        f"({len(result.pools)} pool{'s' * (len(result.pools) > 1)})",
        f"{count} starts were replayed; they overlap, so they are worth about "
        f"{max(1, int(hours / job.deadline_hours))} independent ones",
        f"after workers are added nothing is done for {job.restart_hours * 60:g} min, and it is paid",
        "on-demand GPUs can always be had at the price shown",
    ]
    if job.hard:
        words.append("the deadline is hard: every policy runs behind the deadline guard")
    if job.checkpoint_hours > 0:
        words.append(
            f"a loss of spot takes back the work since the last checkpoint, "
            f"at most {job.checkpoint_hours * 60:g} min of it"
        )
    return (*words, *result.assumptions)


__all__ = ["Starts", "backtest", "check_feasible", "plan"]
