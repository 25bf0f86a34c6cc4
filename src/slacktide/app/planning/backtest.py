"""Back-tests: compares policies from many starts on a past market, next to the clairvoyant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slacktide.app.jobs.feasible import OVER_POOLS, check_in_time, check_in_time_anywhere, ground_for
from slacktide.app.markets.market import DEFAULT_MARKET, MarketSpec, as_market
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.files.job import JobFile, read_job_file
from slacktide.journal.events import Sight
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import ANY_GPU
from slacktide.physics.truth import AS_SAID, RandomTruth, Truth, Truths, parse_truth
from slacktide.policies.base import policies as register
from slacktide.policies.selection.policy_set import AUTO
from slacktide.policies.view import Policy
from slacktide.results.comparison import Comparison
from slacktide.simulation.compare import Progress, Starts, compare, compare_over_pools
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.selection import resolve_policy

DEFAULT_POLICIES: tuple[str, ...] = ("on-demand", "maximal-spot", "uniform-progress", "stochastic-horizon")


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRequest:
    """A back-test of a job file, which says its market and policy where the request does not."""

    path: str
    market: MarketSpec = field(default_factory=MarketSpec)
    policies: Sequence[Spec] = ()
    """None: the common ones and the job's own."""
    starts: Starts = field(default_factory=Starts)
    truth: Truths = AS_SAID
    """What the job really is, apart from its file."""
    sight: Sight = "feed"
    """What a job that may move sees of other pools."""


def run_backtest(
    request: BacktestRequest, *, progress: Progress | None = None, spread: Spread = HERE
) -> Comparison:
    """Back-test a job file; raises as `backtest` does."""
    file = read_job_file(request.path)
    return backtest(
        file.job,
        request.market.open(file.market),
        request.policies or usual_policies(file),
        gpu=file.gpu,
        pool=request.market.pool,
        sight=request.sight,
        starts=request.starts,
        truth=request.truth,
        progress=progress,
        spread=spread,
    )


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
    over pools, may move among those that it can use (of the type `gpu`, where it names none). Policies that
    stay in one pool are then compared in the pool that was best for them. `sight` says what is seen of other
    pools: all that a feed records, or only what was tried.

    `truth` says how the job differs from what it says: all runs from one start meet the same job, and only
    the clairvoyant knows it beforehand. `spread`, which `open_spread` makes, says where the runs are done.

    Raises InputError when the market is shorter than the deadline, InfeasibleError when the job that it says
    it is cannot be done in time on any market.
    """
    chosen = Starts(count=starts) if isinstance(starts, int) else starts
    made = [resolve_policy(policy, key=job.name) for policy in policies]
    opened = as_market(market, slot_hours)
    ground = ground_for(job, gpu, opened, made, pool)
    if ground is None:
        check_in_time(job)
        return compare(
            job, opened, made, pool=pool, starts=chosen, truth=truth, progress=progress, spread=spread
        )
    check_in_time_anywhere(ground.places.jobs)
    if len(ground.pools) == 1:
        (there,), (place,) = ground.places.jobs, ground.pools
        return compare(
            there, opened, made, pool=place.name, starts=chosen, truth=truth, progress=progress, spread=spread
        )
    return compare_over_pools(
        ground, opened, made, starts=chosen, sight=sight, truth=truth, progress=progress, spread=spread
    )


def usual_policies(file: JobFile) -> list[Spec]:
    """Return the common policies and the job's own, each once; for a job that names pools one over pools."""
    if file.policy == AUTO:
        return [*DEFAULT_POLICIES, *((OVER_POOLS,) if file.job.pools else ())]
    # The same policy may be written in several ways: {uniform-progress: {gang: false}} is a common one.
    known = [register.make(spec) for spec in DEFAULT_POLICIES]
    own = [] if register.make(file.policy) in known else [file.policy]
    return [*DEFAULT_POLICIES, *own]


__all__ = [
    "DEFAULT_POLICIES",
    "BacktestRequest",
    "RandomTruth",
    "Starts",
    "Truth",
    "backtest",
    "parse_truth",
    "run_backtest",
    "usual_policies",
]
