"""Plans for jobs that may move among pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.app.jobs.feasible import check_in_time_anywhere
from slacktide.app.jobs.movable import OVER_POOLS, ground_for
from slacktide.app.markets.market import DEFAULT_MARKET, as_market
from slacktide.app.planning.beginning import Beginning, at_slot
from slacktide.app.planning.plan import PlanRequest, market_for, settled
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.files.job import read_job_file
from slacktide.market.base import Market
from slacktide.market.pools.places import ANY_GPU
from slacktide.policies.selection.policy_set import AUTO
from slacktide.policies.view import Policy
from slacktide.results.pools_plan import PoolsPlan
from slacktide.simulation.compare import Progress
from slacktide.simulation.plan.pool_futures import present
from slacktide.simulation.plan.pools_outlook import look_ahead_over_pools
from slacktide.simulation.selection import resolve_policy

BESIDE: tuple[str, ...] = ("stochastic-horizon", "on-demand", OVER_POOLS)
"""What stands beside the chosen policy."""


def make_pools_plan(request: PlanRequest, *, progress: Progress | None = None) -> PoolsPlan | None:
    """Plan a job file over pools; None where the job stays in one. Raises as `plan_over_pools` does."""
    file = read_job_file(request.path)
    policy = file.policy if request.policy is None else request.policy
    request, start = settled(request, file.market)
    market = market_for(request, file.market)
    return plan_over_pools(
        file.job, market, policy, gpu=file.gpu, pool=request.market.pool, start=start, progress=progress
    )


def plan_over_pools(
    job: Job,
    market: Market | str = DEFAULT_MARKET,
    policy: Spec | Policy = AUTO,
    *,
    others: Sequence[Spec | Policy] = BESIDE,
    gpu: str = ANY_GPU,
    pool: str | None = None,
    start: int | Beginning | None = None,
    progress: Progress | None = None,
) -> PoolsPlan | None:
    """Say what a job that may move would probably cost, where it would start, and what moving may save.

    Returns None for a job that stays in one pool: one that names no pools and whose policy does not choose
    them, or with `pool`. `auto` is `roaming-horizon` here. Raises InfeasibleError when the job can be done in
    time in none of its pools, or not for its maximum cost.
    """
    opened = as_market(market, None)
    chosen = resolve_policy(OVER_POOLS if policy == AUTO and job.pools else policy, key=job.name)
    ground = ground_for(job, gpu, opened, [chosen], pool)
    if ground is None or len(ground.pools) < 2:
        return None
    check_in_time_anywhere(ground.places.jobs)
    if math.isinf(job.deadline_hours):
        raise InputError("a job to plan must have a deadline, got none; add `deadline:` to its file")
    begin = start if isinstance(start, Beginning) else at_slot(start)
    slot = begin.of(ground.job, ground.pools[0])
    now = present(ground, ground.pools, slot)
    if now is None:
        raise InputError(
            f"at least two pools of the job must be recorded in slot {slot} of {ground.pools[0].name}, "
            "got fewer; choose another --start, or one pool with --pool"
        )
    beside = [resolve_policy(one, key=job.name) for one in others]
    found = look_ahead_over_pools(now, opened, chosen, beside, begin_slot=slot, progress=progress)
    _check_affordable(found)
    return found


def _check_affordable(plan: PoolsPlan) -> None:
    """Raise InfeasibleError when not even perfect foresight could pay for the job on a good day."""
    limit, best = plan.job.max_cost_usd, plan.outlooks[-1].futures.cost_usd.p10
    if limit is not None and best > limit:
        raise InfeasibleError(
            f"max_cost must allow at least {best:.2f} USD, which is what perfect foresight would pay over "
            f"pools on a good day (p10), got {limit:.2f} USD"
        )
