"""Whether a job can meet its deadline at all, checked before renting, and which pools it may use."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from slacktide.core.errors import InfeasibleError
from slacktide.core.types import Job
from slacktide.core.units import MAX_GPUS
from slacktide.market.base import Market
from slacktide.market.pools.places import UsablePool, job_at
from slacktide.policies.base import roams
from slacktide.policies.view import Policy
from slacktide.simulation.pool_options import PoolOptions

OVER_POOLS = "roaming-horizon"  # the policy for a job that names pools, unless another one is requested


def pool_options(
    job: Job, gpu: str, market: Market, policies: Sequence[Policy], pool: str | None
) -> PoolOptions | None:
    """Return the pools that a job may use, or None for one that stays in whichever pool it is run in.

    A job may move if its file names pools, or if a policy over pools is requested and the market has several
    that it can use; with `pool` it may use only that one. Raises InputError if its file names pools that the
    market does not have, or if it cannot use `pool`.
    """
    if not job.pools and (pool is not None or not any(map(roams, policies))):
        return None
    here = market if pool is None else dataclasses.replace(market, pools=(market.pool(pool),))
    options = PoolOptions.of(job, gpu, here)
    return options if job.pools or len(options.pools) > 1 else None


def check_feasible(job: Job) -> None:
    """Raise InfeasibleError if even on-demand GPUs from the start, in the fastest pool, would be too late."""
    places = [UsablePool("", pool.widths or job.widths, pool.speed) for pool in job.pools]
    check_in_time([job_at(job, place) for place in places] or [job])


def check_in_time(jobs: Sequence[Job]) -> None:
    """Raise InfeasibleError if a job would be too late in every pool; `jobs` is the job as it is in each."""

    def soonest_hours(job: Job) -> float:
        return job.restart_hours + job.work_hours(job.fastest_width)

    job = min(jobs, key=soonest_hours)
    soonest = soonest_hours(job)
    limit = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    if soonest <= limit + 1e-9:
        return
    what = "deadline" if job.hard else "time after which the result is worthless"
    raise InfeasibleError(
        f"the {what} of {limit:g} h cannot be met: on {job.fastest_width} on-demand GPUs from the start "
        f"the job takes {soonest:.4g} h; {', or '.join(_remedies(job, soonest, limit))}"
    )


def _remedies(job: Job, soonest: float, limit: float) -> list[str]:
    remedies = [f"the earliest deadline that can be met is {soonest:.4g} h"]
    wider = next(
        (n for n in range(job.max_gpus + 1, MAX_GPUS + 1) if job.restart_hours + job.work_hours(n) <= limit),
        None,
    )
    if wider is not None:
        remedies.append(f"{wider} GPUs would be enough")
    most = (limit - job.restart_hours) * job.work_gpu_hours / job.work_hours(job.fastest_width)
    if most > 0:
        remedies.append(f"{most:.4g} gpu-hours of work would fit")
    return remedies
