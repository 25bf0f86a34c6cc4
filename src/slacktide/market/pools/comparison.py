"""The pools of a market compared: by one measure, by what moves cost, and whether they are lost together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations

import numpy as np

from slacktide.core.arrays import Bools
from slacktide.core.errors import InputError
from slacktide.market.base import Market, Pool
from slacktide.market.pools.moves import move_hours, move_usd_per_gb, region_of
from slacktide.market.pools.statistics import spells_of


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
    usd, hours = move_usd_per_gb, move_hours
    return [
        MoveBetween(one, other, usd(market.moves, *pair), 60.0 * hours(market.moves, 100.0, *pair))
        for one, other, *pair in (*inside, *outside)
    ]


WITHIN_HOURS = 1.0  # two losses are together if they are not further apart than this


@dataclass(frozen=True, slots=True)
class Dependence:
    """Figures of several pools over the time that all of them have in common.

    A pool is up while it has a spot GPU. None where there are no such pairs, or nothing ever changes.
    """

    correlation_within: float | None  # mean correlation of being up, of pairs in one region
    correlation_between: float | None  # the same, of pairs in two regions
    all_down_share: float  # share of time with no pool up
    all_down_if_independent: float  # what that share would be if the pools had nothing to do with each other
    loss_after_loss: float | None
    """How much more likely a pool that is up is lost within the hour in which another one is lost, as a
    difference of probabilities: the mean over all ordered pairs."""


def dependence(market: Market, regions: Sequence[object] | None = None) -> Dependence:
    """Compute the figures; raises InputError where pools have other slots or no time in common.

    `regions` says where each pool is, if not its name.
    """
    regions = [region_of(name) for name in market] if regions is None else regions
    ups = _common(market.pools)
    slots = max(1, round(WITHIN_HOURS / market.pools[0].slot_hours))
    pairs = list(combinations(range(len(ups)), 2))
    same = [regions[i] == regions[j] for i, j in pairs]
    correlations = [_correlation(ups[i], ups[j]) for i, j in pairs]
    after = [_loss_after_loss(ups[i], ups[j], slots) for a, b in pairs for i, j in ((a, b), (b, a))]
    return Dependence(
        _mean([found for found, near in zip(correlations, same, strict=True) if near]),
        _mean([found for found, near in zip(correlations, same, strict=True) if not near]),
        float((~np.any(ups, axis=0)).mean()),
        float(np.prod([1 - up.mean() for up in ups])),
        _mean(after),
    )


def _common(pools: Sequence[Pool]) -> list[Bools]:
    """Return when each pool is up, in the slots that all of them have."""
    slot_hours = pools[0].slot_hours
    begin, end = max(pool.start for pool in pools), min(pool.end for pool in pools)
    count = round((end - begin) / timedelta(hours=slot_hours))
    if count < 1 or any(pool.slot_hours != slot_hours for pool in pools):
        raise InputError("pools must have one slot length and some time in common, got others; resample them")
    firsts = [round((begin - pool.start) / timedelta(hours=slot_hours)) for pool in pools]
    return [pool.spot_gpus[first : first + count] >= 1 for pool, first in zip(pools, firsts, strict=True)]


def _correlation(one: Bools, other: Bools) -> float | None:
    if one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _loss_after_loss(one: Bools, other: Bools, slots: int) -> float | None:
    """Return how much the loss of one pool raises the chance that the other is lost at once or soon."""
    reach = len(one) - slots
    if reach < 1:
        return None
    up = other[:reach]
    kept = np.all([other[ahead : ahead + reach] for ahead in range(1, slots + 1)], axis=0)
    lost = one[:reach] & ~one[1 : reach + 1]
    if not (lost & up).any():
        return None
    return float(kept[up].mean() - kept[lost & up].mean())


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
