"""Whether a job may move among pools, and among which."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.policies.pools.roams import roams
from slacktide.policies.view import Policy
from slacktide.simulation.pool_options import PoolOptions

OVER_POOLS = "roaming-horizon"
"""The policy for a job that names pools, where no other is asked for."""


def ground_for(
    job: Job, gpu: str, market: Market, policies: Sequence[Policy], pool: str | None
) -> PoolOptions | None:
    """Return where a job may be, or None for one that stays in whichever pool it is run in.

    It may move if its file names pools, or if a policy over pools is asked for and the market has several
    that it can use; with `pool` it may only be there. Raises InputError where it names pools that the market
    does not have, or a pool that it cannot use.
    """
    if not job.pools and (pool is not None or not any(map(roams, policies))):
        return None
    here = market if pool is None else dataclasses.replace(market, pools=(market.pool(pool),))
    ground = PoolOptions.of(job, gpu, here)
    return ground if job.pools or len(ground.pools) > 1 else None
