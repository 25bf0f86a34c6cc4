"""What the pools of one synthetic market have to do with each other.

Pools are like zones, two to a region: 1 and 2, 3 and 4, and so on. The drift of a pool has a part that all
pools share, a part that its region shares and a part of its own, each a walk of the same kind. The first pool
is as it would be alone: the shared parts are drawn to fit it. The others also differ in their mean capacity,
their price and the depth of their dip, as zones do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.market.synthetic.profiles import Drift, Profile, Zones

POOLS_PER_REGION = 2
_SHARED = 1_000_000
"""Where the streams of what is shared begin: further than the streams of any pool."""
_MARKET, _REGION, _OWN, _KIND = range(4)
_WIDEST = 1.5
"""Levels and prices differ by at most this many standard deviations."""

Walk: TypeAlias = Callable[[Drift, np.random.Generator], Floats]
"""Makes the walk of a drift."""


def region_of_number(number: int) -> int:
    """Return the region of a pool, both counted from 1."""
    return (number - 1) // POOLS_PER_REGION + 1


def zone_profile(profile: Profile, number: int, seed: int) -> Profile:
    """Return what a pool is like; the first is the profile itself."""
    if number == 1:
        return profile
    zones, rng = profile.zones, np.random.default_rng(_sequence(seed, _KIND, number))
    level, price = np.clip(rng.standard_normal(2), -_WIDEST, _WIDEST)
    return replace(
        profile,
        level_gpus=profile.level_gpus + zones.level_shift_gpus + float(level) * zones.level_spread_gpus,
        spot_share=profile.spot_share * math.exp(float(price) * zones.price_spread),
        dip_gpus=profile.dip_gpus * float(rng.uniform(*zones.dip_range)),
    )


class SharedDrifts:
    """The parts of the drifts that pools share, fitted to the first pool."""

    def __init__(self, profile: Profile, seed: int, first: Sequence[Floats], walk: Walk) -> None:
        """Draw what is shared by all pools and by the first region, given the walks of the first pool."""
        self._drifts, self._seed, self._walk = profile.drifts, seed, walk
        self._weights = _weights(profile.zones)
        market, region, own = (self._walks(kind, 1) for kind in (_MARKET, _REGION, _OWN))
        drawn = self._sums(market, region, own)
        # Gaussian parts, moved by their share of what the sum is off, are distributed as given the sum.
        off = [walk - other for walk, other in zip(first, drawn, strict=True)]
        far, near, _ = self._weights
        self._market = [walk + far * gap for walk, gap in zip(market, off, strict=True)]
        self._regions = {1: [walk + near * gap for walk, gap in zip(region, off, strict=True)]}

    def mixed(self, number: int, own: Sequence[Floats]) -> list[Floats]:
        """Return the walks of a pool after the first, made of what is shared and of its own walks."""
        region = region_of_number(number)
        if region not in self._regions:
            self._regions[region] = self._walks(_REGION, region)
        return self._sums(self._market, self._regions[region], own)

    def _sums(
        self, market: Sequence[Floats], region: Sequence[Floats], own: Sequence[Floats]
    ) -> list[Floats]:
        far, near, alone = self._weights
        each = zip(market, region, own, strict=True)
        return [np.asarray(far * first + near * second + alone * third) for first, second, third in each]

    def _walks(self, kind: int, number: int) -> list[Floats]:
        parts = _sequence(self._seed, kind, number).spawn(len(self._drifts))
        each = zip(self._drifts, parts, strict=True)
        return [self._walk(drift, np.random.default_rng(part)) for drift, part in each]


def _weights(zones: Zones) -> tuple[float, float, float]:
    """Return how much of a walk is shared by all pools, shared by a region, and a pool's own."""
    within, between = zones.within_share, zones.between_share
    return math.sqrt(between), math.sqrt(within - between), math.sqrt(1.0 - within)


def _sequence(seed: int, kind: int, number: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(_SHARED, kind, number))
