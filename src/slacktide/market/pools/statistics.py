"""Statistics of pools: of each by itself, compared by one measure, and of moves between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.errors import shown
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import move_hours, move_usd_per_gb, region_of

MOST_LISTED = 4  # how many pools are named in a sentence


class Spells(NamedTuple):
    """Lengths in hours of the spells in which a pool had spot, and of those in which it had none."""

    up_hours: Floats
    down_hours: Floats


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """What a pool was like over its whole series; None where the series is too short or never changes."""

    slots: int
    hours: float
    max_spot_gpus: int  # the most that was ever obtainable; `half` and `full` are shares of it
    any_share: float  # share of time with at least one spot GPU
    half_share: float
    full_share: float
    mean_spot_gpus: float
    losses_per_day: float  # how often a day spot fell to none
    up_median_hours: float | None
    up_mean_hours: float | None
    down_median_hours: float | None
    down_mean_hours: float | None
    autocorrelation_1h: float | None  # of having at least one spot GPU
    autocorrelation_24h: float | None
    any_share_by_hour: tuple[float | None, ...]  # 24 values, for the hours of the day in UTC
    spot_min_usd: float
    spot_mean_usd: float
    spot_max_usd: float
    on_demand_mean_usd: float
    price_share: float | None
    """Mean spot price as a share of the mean on-demand price; None if on demand is free."""
    price_moves_per_day: float
    on_demand_any_share: float | None = None
    """Share of time with at least one on-demand GPU; None where the trace does not limit them."""
    on_demand_mean_gpus: float | None = None
    """Mean on-demand GPUs, over the time in which they are limited; None if they never are."""


def describe(pool: Pool) -> PoolFigures:
    """Compute the figures of a pool."""
    gpus = pool.spot_gpus
    most = int(gpus.max())
    some = gpus >= 1
    spells = spells_of(pool)
    days = pool.hours / 24
    spot, on_demand = pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour
    return PoolFigures(
        slots=len(pool),
        hours=pool.hours,
        max_spot_gpus=most,
        any_share=float(some.mean()),
        half_share=_share_with(gpus, 0.5 * most),
        full_share=_share_with(gpus, most),
        mean_spot_gpus=float(gpus.mean()),
        losses_per_day=int((some[:-1] & ~some[1:]).sum()) / days,
        up_median_hours=_median(spells.up_hours),
        up_mean_hours=_mean(spells.up_hours),
        down_median_hours=_median(spells.down_hours),
        down_mean_hours=_mean(spells.down_hours),
        autocorrelation_1h=autocorrelation(some, round(1 / pool.slot_hours)),
        autocorrelation_24h=autocorrelation(some, round(24 / pool.slot_hours)),
        any_share_by_hour=by_hour(pool),
        spot_min_usd=float(spot.min()),
        spot_mean_usd=float(spot.mean()),
        spot_max_usd=float(spot.max()),
        on_demand_mean_usd=float(on_demand.mean()),
        price_share=float(spot.mean() / on_demand.mean()) if on_demand.any() else None,
        price_moves_per_day=int(np.count_nonzero(np.diff(spot))) / days,
        on_demand_any_share=None if pool.on_demand_gpus is None else stock_share(pool, 1),
        on_demand_mean_gpus=_mean(pool.stock_gpus[pool.stock_gpus < UNLIMITED_GPUS].astype(np.float64)),
    )


def stock_share(pool: Pool, gpus: int) -> float:
    """Return the share of time with at least this many on-demand GPUs."""
    return float((pool.stock_gpus >= gpus).mean())


def stock_outs_said(places: Sequence[tuple[Pool, int]]) -> str:
    """Say for how much of the time pools had fewer on-demand GPUs than these; empty if they never had."""
    short = [(pool.name, gpus, 1.0 - stock_share(pool, gpus)) for pool, gpus in places]
    outages = [
        f"fewer than {gpus} {share:.1%} of the time in {shown(name)}" for name, gpus, share in short if share
    ]
    more = f" and more in {len(outages) - MOST_LISTED} other pools" if len(outages) > MOST_LISTED else ""
    return ", ".join(outages[:MOST_LISTED]) + more


def spells_of(pool: Pool) -> Spells:
    """Return the lengths of spells with and without a spot GPU, those at the ends included."""
    up = pool.spot_gpus >= 1
    borders = np.concatenate([[0], np.flatnonzero(np.diff(up)) + 1, [len(up)]])
    hours = np.diff(borders) * pool.slot_hours
    kind = up[borders[:-1]]
    return Spells(hours[kind], hours[~kind])


def autocorrelation(flags: Bools, lag: int) -> float | None:
    """Return how alike a series is to itself `lag` slots later, from -1 to 1; None if short or constant."""
    if lag < 1 or len(flags) <= lag + 1:
        return None
    before, after = flags[:-lag], flags[lag:]
    if before.std() == 0 or after.std() == 0:
        return None
    return float(np.corrcoef(before, after)[0, 1])


def by_hour(pool: Pool) -> tuple[float | None, ...]:
    """Return the share of time with spot for each of the 24 hours of the day; None for hours not seen."""
    # The 1e-9 keeps a slot that begins on the hour in that hour, in spite of rounding.
    begins = pool.first_hour_of_day + np.arange(len(pool)) * pool.slot_hours + 1e-9
    hours = np.asarray(begins % 24, dtype=np.int64)
    seen = np.bincount(hours, minlength=24)
    some = np.bincount(hours, weights=pool.spot_gpus >= 1, minlength=24)
    return tuple(float(part / whole) if whole else None for part, whole in zip(some, seen, strict=True))


def _share_with(gpus: Ints, least: float) -> float:
    """Return the share of time with this many GPUs, and at least one."""
    return float((gpus >= max(1.0, least)).mean())


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


@dataclass(frozen=True, slots=True)
class ComparedPool:
    """A pool as it compares with the others of its market."""

    pool: str
    gpu: str  # its GPU type; empty where that is not known
    region: str
    spot_now_usd: float  # what spot costs in its last slot, per GPU-hour
    spot_mean_usd: float
    on_demand_now_usd: float
    spot_now_gpus: int  # what it offers in its last slot
    any_share: float  # share of time with at least one spot GPU
    half_of_largest_share: float
    """Share of time with at least half of the most GPUs that any pool of the market ever had."""
    largest_share: float  # share of time with all of them
    up_mean_hours: float | None
    """Mean length of the times with at least one spot GPU; None where there were none."""
    down_mean_hours: float | None


@dataclass(frozen=True, slots=True)
class MoveBetween:
    """The cost and time of copying data between two regions, or between the pools of one region."""

    region: str
    other: str
    usd_per_gb: float
    minutes_per_100_gb: float


def largest_gpus(market: Market) -> int:
    """Return the most spot GPUs that any pool of a market ever had."""
    return max(int(pool.spot_gpus.max()) for pool in market.pools)


def side_by_side(market: Market) -> list[ComparedPool]:
    """Return the pools of a market, with shares of the most GPUs that any of them ever had."""
    most = largest_gpus(market)
    return [_compared(pool, most) for pool in market.pools]


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
        any_share=_share_with(gpus, 1),
        half_of_largest_share=_share_with(gpus, 0.5 * most),
        largest_share=_share_with(gpus, most),
        up_mean_hours=_mean(spells.up_hours),
        down_mean_hours=_mean(spells.down_hours),
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
    usd, hours = move_usd_per_gb, move_hours
    return [
        MoveBetween(one, other, usd(market.moves, *pair), 60.0 * hours(market.moves, 100.0, *pair))
        for one, other, *pair in (*inside, *outside)
    ]
