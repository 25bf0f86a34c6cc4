"""Back-tests: compares policies from many starts on a past market, next to the clairvoyant."""

from __future__ import annotations

from collections.abc import Sequence

from slacktide.app.jobs.feasible import OVER_POOLS, check_in_time, pool_options
from slacktide.app.markets.market import DEFAULT_MARKET, as_market
from slacktide.app.task_requests import BacktestRequest, JobTask, parse_policy
from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.files.job import JobFile
from slacktide.journal.events import Sight
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import ANY_GPU
from slacktide.physics.truth import AS_SAID, Truths, parse_truth
from slacktide.policies.base import policies as register
from slacktide.policies.selection.auto_policy import resolve_policy
from slacktide.policies.selection.policy_set import AUTO, DEFAULT_POLICIES
from slacktide.policies.view import Policy
from slacktide.results.comparison import Comparison
from slacktide.simulation.compare import Progress, Starts, compare, compare_over_pools
from slacktide.simulation.parallel.base import HERE, Spread


def run_backtest(
    task: JobTask[BacktestRequest], *, progress: Progress | None = None, spread: Spread = HERE
) -> Comparison:
    """Back-test a job file; raises as `backtest` does."""
    request, file = task.request, task.file
    specs = [spec for policy in request.policies if (spec := parse_policy(policy)) is not None]
    return backtest(
        file.job,
        task.open_market(),
        specs or usual_policies(file),
        gpu=file.gpu,
        pool=task.market.pool,
        sight=request.sight,
        starts=_starts(request),
        truth=AS_SAID if request.truth is None else parse_truth(request.truth),
        progress=progress,
        spread=spread,
    )


def _starts(request: BacktestRequest) -> Starts:
    if request.every_hours is not None:
        return Starts(count=None, every_hours=request.every_hours)
    if request.starts is None:
        raise InputError("starts or every_hours must be given, got neither")
    return Starts(count=request.starts)


def backtest(
    job: Job,
    market: Market | Pool | str = DEFAULT_MARKET,
    policies: Sequence[Spec | Policy] = DEFAULT_POLICIES,
    *,
    gpu: str = ANY_GPU,
    pool: str | None = None,
    sight: Sight = "feed",
    slot_hours: float | None = None,
    starts: Starts | Sequence[int] | int | None = None,
    truth: Truths = AS_SAID,
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> Comparison:
    """Back-test policies for a job from many starts of a market, next to the clairvoyant.

    `market` is a Market, a Pool, or what `--market` takes: a file or `synthetic:PROFILE`.
    Without `pool` every pool of the market is tried; a job that names pools, or that is tried with a policy
    over pools, may move between those that it can use (of the type `gpu`, if it names none). Policies that
    stay in one pool are then compared in the pool that was best for them. `sight` says what policies see of
    other pools: everything that a feed records, or only what they tried.

    `truth` says how the real job differs from `job`: all runs from one start are of the same real job, and
    only the clairvoyant knows it beforehand. `spread`, from `open_spread`, says where runs are computed.

    Raises InputError when the market is shorter than the deadline, InfeasibleError when the job as described
    cannot be done in time on any market.
    """
    starts = Starts(count=starts) if isinstance(starts, int) else starts
    chosen = [resolve_policy(policy, key=job.name) for policy in policies]
    opened = as_market(market, slot_hours)
    options = pool_options(job, gpu, opened, chosen, pool)
    check_in_time([job] if options is None else options.places.jobs)
    if options is not None and len(options.pools) > 1:
        return compare_over_pools(
            options, opened, chosen, starts=starts, sight=sight, truth=truth, progress=progress, spread=spread
        )
    if options is not None:  # as it is in the only pool that it may use
        job, pool = options.places.jobs[0], options.pools[0].name
    return compare(
        job, opened, chosen, pool=pool, starts=starts, truth=truth, progress=progress, spread=spread
    )


def usual_policies(file: JobFile) -> list[Spec]:
    """Return the common policies and the job's own, each once; for `auto` with pools, one that moves, too."""
    if file.policy == AUTO:
        return [*DEFAULT_POLICIES, *((OVER_POOLS,) if file.job.pools else ())]
    # The same policy may be written in several ways: {uniform-progress: {gang: false}} is a common one.
    known = [register.make(spec) for spec in DEFAULT_POLICIES]
    own = [] if register.make(file.policy) in known else [file.policy]
    return [*DEFAULT_POLICIES, *own]


__all__ = [
    "Starts",  # commands import from `app` alone
    "backtest",
    "run_backtest",
    "usual_policies",
]
