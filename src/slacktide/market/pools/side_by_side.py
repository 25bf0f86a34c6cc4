"""The pools of a market side by side, by one measure, and what moves between them cost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from slacktide.market.base import Market, Pool
from slacktide.market.pools.moves import Moves, region_of
from slacktide.market.pools.statistics import spells_of


@dataclass(frozen=True, slots=True)
class ComparedPool:
    """A pool as it compares with the others of its market."""

    pool: str
    gpu: str
    """Its GPU type; empty where that is not known."""
    region: str
    spot_now_usd: float
    """What spot costs in its last slot, per GPU-hour."""
    spot_mean_usd: float
    on_demand_now_usd: float
    spot_now_gpus: int
    """What it offers in its last slot."""
    any_share: float
    """Share of time with at least one spot GPU."""
    half_of_largest_share: float
    """Share of time with at least half of the most GPUs that any pool of the market ever had."""
    largest_share: float
    """Share of time with all of them."""
    up_mean_hours: float | None
    """Mean length of the times with at least one spot GPU; None where there were none."""
    down_mean_hours: float | None


@dataclass(frozen=True, slots=True)
class MoveBetween:
    """What it costs to carry a GB between two regions, both ways; of one region, between its pools."""

    region: str
    other: str
    usd_per_gb: float
    minutes_per_100_gb: float


def largest_gpus(market: Market) -> int:
    """Return the most spot GPUs that any pool of a market ever had."""
    return max(int(pool.spot_gpus.max()) for pool in market.pools)


def side_by_side(market: Market) -> list[ComparedPool]:
    """Return the pools of a market by one measure: the most GPUs that any of them ever had."""
    return [_compared(pool, largest_gpus(market)) for pool in market.pools]


def _compared(pool: Pool, most: int) -> ComparedPool:
    gpus, spells = pool.spot_gpus, spells_of(pool)
    return ComparedPool(
        pool=pool.name,
        gpu=pool.gpu,
        region=region_of(pool.name),
        spot_now_usd=float(pool.spot_usd_per_gpu_hour[-1]),
        spot_mean_usd=float(pool.spot_usd_per_gpu_hour.mean()),
        on_demand_now_usd=float(pool.on_demand_usd_per_gpu_hour[-1]),
        spot_now_gpus=int(gpus[-1]),
        any_share=float((gpus >= 1).mean()),
        half_of_largest_share=float((gpus >= max(1.0, 0.5 * most)).mean()),
        largest_share=float((gpus >= max(1, most)).mean()),
        up_mean_hours=float(spells.up_hours.mean()) if len(spells.up_hours) else None,
        down_mean_hours=float(spells.down_hours.mean()) if len(spells.down_hours) else None,
    )


def moves_between(market: Market) -> list[MoveBetween]:
    """Return what moves between the regions of a market cost, and between pools of one region."""
    first: dict[str, str] = {}
    several: dict[str, tuple[str, str]] = {}
    for pool in market.pools:
        region = region_of(pool.name)
        if region in first:
            several.setdefault(region, (first[region], pool.name))
        first.setdefault(region, pool.name)
    inside = [(region, region, *names) for region, names in several.items()]
    outside = [(one, other, first[one], first[other]) for one, other in combinations(first, 2)]
    return [_between(market.moves, *pair) for pair in (*inside, *outside)]


def _between(moves: Moves, region: str, other: str, pool: str, to: str) -> MoveBetween:
    return MoveBetween(region, other, moves.usd_per_gb(pool, to), 60.0 * moves.hours(100.0, pool, to))
