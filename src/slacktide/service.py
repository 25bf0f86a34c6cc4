"""The verbs of the product: what the command line does, and what Python users call."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.backtesting.compare import Progress, Starts, compare, label
from slacktide.backtesting.outlook import look_ahead
from slacktide.backtesting.selection import resolve_policy
from slacktide.backtesting.stream.compare import compare_streams
from slacktide.budget.answer import BudgetAnswer, answer
from slacktide.budget.asked import rounded_up
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.frontier import frontier
from slacktide.budget.stream import Stream
from slacktide.budget.widths import least_budget_gpus
from slacktide.deciding import AnyAllocator, Policy
from slacktide.errors import InfeasibleError, InputError
from slacktide.learn.pool import AUTO
from slacktide.market.base import Market, Pool
from slacktide.market.series import resample
from slacktide.market.source import open_market
from slacktide.register import Spec
from slacktide.results.comparison import Comparison
from slacktide.results.plan import JobPlan
from slacktide.results.stream import StreamComparison
from slacktide.types import MAX_GPUS, Job
from slacktide.units import HOURS_PER_MONTH, format_duration

DEFAULT_POLICIES: tuple[str, ...] = ("on-demand", "maximal-spot", "uniform-progress", "stochastic-horizon")
DEFAULT_MARKET = "synthetic:h100"
DEFAULT_ALLOCATORS: tuple[str, ...] = (
    "fixed-width",
    "online-width",
    "one-width",
    "efficiency-band",
    "equi",
    "fifo",
    "srpt",
)


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
    made = [resolve_policy(policy, key=job.name) for policy in policies]
    return compare(job, _market(market, slot_hours), made, pool=pool, starts=chosen, progress=progress)


def plan(
    job: Job,
    market: Market | Pool | str = DEFAULT_MARKET,
    policy: Spec | Policy = AUTO,
    *,
    others: Sequence[Spec | Policy] = DEFAULT_POLICIES,
    pool: str | None = None,
    slot_hours: float | None = None,
    progress: Progress | None = None,
) -> JobPlan:
    """Say what a job would probably cost and when it would be done, before anyone pays.

    Futures are drawn from a model that the market's past taught; recent starts of the market stand beside
    them. Without `pool` the best pool of the market is chosen. Raises InfeasibleError when the job cannot be
    done in time, or not for its greatest cost.
    """
    check_feasible(job)
    made = {label(one): one for one in (resolve_policy(spec, key=job.name) for spec in (policy, *others))}
    result = look_ahead(job, _market(market, slot_hours), list(made.values()), pool=pool, progress=progress)
    _check_affordable(job, result)
    return result


def budget(
    classes: Sequence[JobClass],
    budget_gpus: float | None = None,
    *,
    mean_response_hours: float | None = None,
    usd_per_gpu_hour: float | None = None,
    integer: bool = True,
) -> BudgetAnswer:
    """Say how wide each class of jobs should run on an average budget, and what that buys.

    Give either the budget or the mean response that the cheapest one is sought for. Raises InfeasibleError
    when the budget is too small for the work that arrives, or the response faster than any budget buys.
    """
    if (budget_gpus is None) == (mean_response_hours is None):
        raise InputError("one of budget_gpus and mean_response_hours must be given, got both or neither")
    curve = frontier(classes, integer)
    if budget_gpus is None:
        assert mean_response_hours is not None
        _check_soon_enough(float(curve.mean_response_hours[-1]), mean_response_hours)
        budget_gpus = curve.cheapest_budget_for(mean_response_hours)
    _check_enough(float(curve.budget_gpus[0]), budget_gpus, usd_per_gpu_hour)
    return answer(curve, budget_gpus, usd_per_gpu_hour=usd_per_gpu_hour, integer=integer)


def simulate(
    stream: Stream,
    fleet: Fleet,
    policies: Sequence[Spec | AnyAllocator] | None = None,
    *,
    progress: Progress | None = None,
) -> StreamComparison:
    """Run a stream of jobs under allocators, each beside the optimum at its own realised spending.

    A policy given by its bare name is turned until it spends the fleet's budget; without `policies` all known
    ones are run. Raises InfeasibleError when the budget is too small for the work that arrives.
    """
    _check_enough(least_budget_gpus(fleet.classes), fleet.budget_gpus, None)
    return compare_streams(stream, fleet, policies or list(DEFAULT_ALLOCATORS), progress=progress)


def _check_enough(least_gpus: float, budget_gpus: float, usd_per_gpu_hour: float | None) -> None:
    """Raise InfeasibleError, in GPUs and money, when a budget is smaller than the least."""
    if budget_gpus >= least_gpus * (1 - 1e-12):
        return
    least, came = f"{rounded_up(least_gpus)} GPUs on average", f"{budget_gpus:.4g} GPUs"
    if usd_per_gpu_hour is not None:
        month = usd_per_gpu_hour * HOURS_PER_MONTH
        least += f" ({math.ceil(least_gpus * month):,} usd/month)"
        came += f" ({budget_gpus * month:,.0f} usd/month)"
    raise InfeasibleError(
        f"the budget must be >= {least}, the least on which the work that arrives gets done, got {came}; "
        "raise the budget, or allow narrower widths"
    )


def _check_soon_enough(fastest_hours: float, mean_response_hours: float) -> None:
    if 0 < mean_response_hours < fastest_hours * (1 - 1e-12):
        # Rounded up, so that whoever asks for what is printed gets it.
        least = format_duration(math.ceil(fastest_hours * 3600) / 3600)
        raise InfeasibleError(
            f"the mean response must be >= {least}, the fastest on any budget, got "
            f"{format_duration(mean_response_hours)}; allow more time, or wider widths"
        )


def check_feasible(job: Job) -> None:
    """Raise InfeasibleError when not even on-demand GPUs from the start are in time."""
    soonest = job.restart_hours + job.work_hours(job.fastest_width)
    limit = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    if soonest <= limit + 1e-9:
        return
    what = "deadline" if job.hard else "time after which the result is worthless"
    most = (limit - job.restart_hours) * job.work_gpu_hours / job.work_hours(job.fastest_width)
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
    return job.restart_hours + job.work_hours(gpus) <= limit


def _check_affordable(job: Job, plan: JobPlan) -> None:
    if job.max_cost_usd is None:
        return
    best = plan.outlooks[-1]
    cheapest = min(best.futures.cost_usd.p10, best.history.cost_usd.p10)
    if cheapest > job.max_cost_usd:
        raise InfeasibleError(
            f"max_cost must allow at least {cheapest:.2f} USD, which is what one who knows the future would "
            f"pay on a good day (p10), got {job.max_cost_usd:.2f} USD; {plan.policy} would need "
            f"{plan.outlooks[0].futures.cost_usd.p90:.2f} USD (p90)"
        )


def _market(market: Market | Pool | str, slot_hours: float | None) -> Market:
    if isinstance(market, str):
        return open_market(market, slot_hours=slot_hours)
    if isinstance(market, Pool):
        market = Market((market,), source=market.name)
    return market if slot_hours is None else resample(market, slot_hours)


__all__ = [
    "BudgetAnswer",
    "JobPlan",
    "Starts",
    "StreamComparison",
    "backtest",
    "budget",
    "check_feasible",
    "plan",
    "simulate",
]
