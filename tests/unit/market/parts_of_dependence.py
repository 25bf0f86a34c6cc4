"""Whether the pools of a market are up and lost together: the figures that synthetic markets are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations

import numpy as np

from slacktide.core.arrays import Bools
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import region_of

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
    """Compute the figures; `regions` says where each pool is, if not its name."""
    regions = [region_of(name) for name in market] if regions is None else regions
    ups = _common(market.pools)
    slots = max(1, round(WITHIN_HOURS / market.pools[0].slot_hours))
    pairs = list(combinations(range(len(ups)), 2))
    same = [regions[i] == regions[j] for i, j in pairs]
    correlations = [_correlation(ups[i], ups[j]) for i, j in pairs]
    after = [_loss_after_loss(ups[i], ups[j], slots) for a, b in pairs for i, j in ((a, b), (b, a))]
    return Dependence(
        _mean_known([number for number, near in zip(correlations, same, strict=True) if near]),
        _mean_known([number for number, near in zip(correlations, same, strict=True) if not near]),
        float((~np.any(ups, axis=0)).mean()),
        float(np.prod([1 - up.mean() for up in ups])),
        _mean_known(after),
    )


def _common(pools: Sequence[Pool]) -> list[Bools]:
    """Return when each pool is up, in the slots that all of them have."""
    slot_hours = pools[0].slot_hours
    begin, end = max(pool.start for pool in pools), min(pool.end for pool in pools)
    count = round((end - begin) / timedelta(hours=slot_hours))
    assert count >= 1
    assert all(pool.slot_hours == slot_hours for pool in pools)
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


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
