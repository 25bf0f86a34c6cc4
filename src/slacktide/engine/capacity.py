"""What can be had at all: a market may offer more than there are machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from slacktide.allocators.site.spot import Spot
from slacktide.backends.base import PoolRoom
from slacktide.core.quotes import Quote
from slacktide.engine.job.job_context import JobContext
from slacktide.physics import progress as physics


def scarce_spot(
    contexts: Iterable[JobContext], capacity: Callable[[str], PoolRoom], now_hours: float
) -> dict[str, int]:
    """Return how much spot the market offers now that no machine can give, by pool."""
    found: dict[str, int] = {}
    for context in contexts:
        for pool in context.pool_names:
            room = math.inf if pool in found else capacity(pool).spot_gpus
            if math.isfinite(room):
                offered = context.named(pool).quote(context.slot(now_hours)).spot_gpus
                found[pool] = max(0, offered - int(room))
    return found


def cut_to_capacity(
    spot_of_all: Spot, room: PoolRoom, job: str, context: JobContext, left: Quote, spot: int, on_demand: int
) -> tuple[int, int]:
    """Cut on-demand GPUs to those that machines can give; spot makes up for the rest as far as it is left."""
    if math.isinf(room.on_demand_gpus):
        return spot, on_demand
    # By claims: those of a fleet are decided about together, so what others were given is not written yet.
    by_others = spot_of_all.on_demand_by_others(job).get(context.market_pool.name, 0)
    most = max(0, int(room.on_demand_gpus) - by_others)
    if on_demand <= most:
        return spot, on_demand
    return physics.cut(context.terms, left, spot + on_demand - most, most)
