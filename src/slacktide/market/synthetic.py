"""Synthetic markets: seeded, fast, and similar to real ones in the figures that matter to a policy.

Behind each pool is a level of free capacity that drifts on several time scales at once and dips in
the afternoon (UTC). What is obtainable is that level, cut to what the pool can offer, less what an
outage takes now and then. Far from the limits it stays where it is for days, near them it flickers:
that alone gives the heavy-tailed spells, many of minutes and a few of days, that real traces show.
The price moves a little every few hours and rarely jumps, then fades back; it does not depend on
the capacity.

The parameters of the named profiles were fitted by a search on long runs, so that the figures of generated
markets come near those of measured traces; tests compare the former with these targets, and the targets with
the traces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, UnknownNameError
from slacktide.market.base import EPOCH, Market, Pool, with_notice
from slacktide.market.series import check_slots, resample

POOLS_PER_REGION = 2
_SHARED = 1_000_000  # the first key of random streams that pools share: beyond the keys of all pools
_MARKET, _REGION, _OWN, _KIND = range(4)
_WIDEST = 1.5  # levels and prices differ by at most this many standard deviations
_DIP_CENTRE_HOUR = 16.5
_DIP_HALF_WIDTH_HOURS = 6.0
_MOVE_HOURS = (3.8, 8.7)
"""Prices move after this long; eight in ten spacings of AWS's changes in 2024 lie between these."""
_MOVE_TREND = 0.45  # how much of a move carries over into the next one
_LARGEST_MOVE = 0.025
_PRICE_MEMORY = 0.998
"""What is left of a price's distance from its mean after a move; half of it is gone in three months."""
_JUMP_FACTORS = (2.0, 3.0)
_DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Drift:
    """One time scale on which free capacity wanders."""

    spread_gpus: float  # standard deviation
    memory_hours: float  # after this time, about a third of a deviation is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Zones:
    """How the pools of a market differ, and what their drifts share; the first pool is the profile itself."""

    within_share: float  # share of the variance of drifts that pools of one region have in common
    between_share: float = 0.0  # share that all pools have in common, at most that of a region
    level_shift_gpus: float = 0.0
    """How much more free capacity the other pools have on average than the first."""
    level_spread_gpus: float  # standard deviation of the mean free capacity among pools
    price_spread: float = 0.1  # the same of the spot price, relative
    dip_range: tuple[float, float] = (0.5, 1.5)
    """How deep the dip of a pool is, as a share of the first one's: drawn between these two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a synthetic market is like: its free capacity and its prices."""

    name: str
    summary: str
    zones: Zones
    gpu: str = ""  # the GPU type of its pools; empty for any
    slot_hours: float = 1 / 6
    level_gpus: float
    """Mean free capacity; what is above the maximum or below zero is not seen, but lengthens spells."""
    drifts: tuple[Drift, ...]
    dip_gpus: float  # capacity missing at the bottom of the afternoon's dip
    hits_per_hour: float  # sudden outages of a slot or a few
    hit_gpus: float = 16.0  # what an outage takes away on average
    max_spot_gpus: int = 16
    on_demand_usd_per_gpu_hour: float = 10.32
    spot_share: float = 0.22  # mean spot price between jumps, as a share of on demand
    move_share: float = 0.003  # typical relative size of a price move; there is one every few hours
    jumps_per_day: float = 0.03  # how often the price doubles or triples
    fade_hours: float = 12.0  # after this time, about a third of a jump is left


_ALL = (
    Profile(
        name="h100",
        summary="An average H100 zone: full capacity at night, little in the afternoon.",
        gpu="H100",
        zones=Zones(within_share=0.6, level_shift_gpus=-7.5, level_spread_gpus=4.6, dip_range=(0.0, 0.3)),
        level_gpus=15.9,
        drifts=(Drift(4.65, 0.30), Drift(2.28, 5.0), Drift(4.36, 32.0)),
        dip_gpus=13.6,
        hits_per_hour=0.014,
    ),
    Profile(
        name="h100-good",
        summary="The best H100 zone measured: nearly always available, with short interruptions.",
        gpu="H100",
        zones=Zones(within_share=0.65, level_spread_gpus=5.0),
        level_gpus=34.9,
        drifts=(Drift(13.5, 0.114), Drift(6.7, 5.5), Drift(9.7, 20.3)),
        dip_gpus=4.0,
        hits_per_hour=0.11,
        hit_gpus=3.6,
    ),
    Profile(
        name="h100-scarce",
        summary="A scarce H100 zone: no spot for hours or days, then full capacity.",
        gpu="H100",
        zones=Zones(within_share=0.45, level_spread_gpus=20.0),
        level_gpus=12.0,
        drifts=(Drift(60.0, 40.0),),
        dip_gpus=18.0,
        hits_per_hour=0.6,
        hit_gpus=5.0,
        spot_share=0.23,
    ),
    Profile(
        name="v100",
        summary="V100 as on AWS in 2023: all or nothing, lost five times a day.",
        gpu="V100",
        zones=Zones(
            within_share=0.66,
            between_share=0.27,
            level_shift_gpus=30.0,
            level_spread_gpus=220.0,
            price_spread=0.14,
        ),
        level_gpus=220.0,
        drifts=(Drift(130.0, 1.57), Drift(197.0, 3.57), Drift(310.0, 51.6)),
        dip_gpus=65.0,
        hits_per_hour=0.005,
        on_demand_usd_per_gpu_hour=3.06,
        spot_share=0.34,
    ),
    Profile(
        name="volatile",
        summary="A volatile market: eight losses a day, rarely full, prices that jump every few days.",
        zones=Zones(within_share=0.5, level_spread_gpus=2.0),
        level_gpus=9.6,
        drifts=(Drift(4.57, 0.176), Drift(0.49, 3.1), Drift(4.9, 21.5)),
        dip_gpus=2.8,
        hits_per_hour=0.029,
        spot_share=0.3,
        move_share=0.005,
        jumps_per_day=0.3,
    ),
)
PROFILES = {profile.name: profile for profile in _ALL}
DEFAULT_PROFILE = "h100"


def profile(name: str) -> Profile:
    """Return a profile by name; raises UnknownNameError with "did you mean"."""
    if name not in PROFILES:
        raise UnknownNameError("a synthetic profile", name, PROFILES)
    return PROFILES[name]


Walk: TypeAlias = Callable[[Drift, np.random.Generator], Floats]  # makes the walk of a drift


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
        # Gaussian parts, each moved by its share of the sum's error, are distributed as if given the sum.
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


def synthesize(
    profile: Profile,
    *,
    days: float,
    seed: int,
    slot_hours: float | None = None,
    pools: int = 1,
    notice_hours: float = 0.0,
) -> Market:
    """Make a market that begins at EPOCH. The same seed makes the same market, whatever its length.

    More pools leave the first ones as they are. Another slot length than the profile's own shows the
    same market resampled. `notice_hours` is how long before a loss of spot its holder is warned. Raises
    InputError for an impossible number.
    """
    _check(profile, days, seed, pools)
    slots = max(1, round(days * 24 / profile.slot_hours))
    made = tuple(_pools(profile, slots, seed, pools))
    more = f"&pools={pools}" if pools > 1 else ""
    more += f"&notice={60.0 * notice_hours:g}m" if notice_hours else ""
    market = Market(
        made,
        f"synthetic:{profile.name}?seed={seed}&days={days:g}{more}",
        ("The market is synthetic: calibrated on real traces, but not one of them.",),
    )
    market = with_notice(market, notice_hours)
    return market if slot_hours is None else resample(market, slot_hours)


def _check(profile: Profile, days: float, seed: int, pools: int) -> None:
    if not (math.isfinite(days) and days > 0):
        raise InputError(f"days must be > 0, got {days:g}")
    if seed < 0:
        raise InputError(f"seed must be >= 0, got {seed}")
    if not 1 <= pools <= 1000:
        raise InputError(f"pools must be in 1..1000, got {pools}")
    check_slots(pools * days * 24 / profile.slot_hours, "a synthetic market")


def _pools(profile: Profile, slots: int, seed: int, pools: int) -> Iterator[Pool]:
    def walk(drift: Drift, rng: np.random.Generator) -> Floats:
        return _drifting(drift, profile.slot_hours, slots, rng)

    shared: SharedDrifts | None = None
    for number, sequence in enumerate(np.random.SeedSequence(seed).spawn(pools), start=1):
        # Each ingredient draws from its own stream, so that a longer series begins like a shorter one.
        *drifting, hit, price = map(np.random.default_rng, sequence.spawn(len(profile.drifts) + 2))
        walks = [walk(drift, rng) for drift, rng in zip(profile.drifts, drifting, strict=True)]
        if shared is not None:
            walks = shared.mixed(number, walks)
        elif pools > 1:
            shared = SharedDrifts(profile, seed, walks, walk)
        yield _pool(zone_profile(profile, number, seed), f"{profile.name}-{number}", walks, hit, price)


def _pool(
    profile: Profile, name: str, walks: list[Floats], hit: np.random.Generator, price: np.random.Generator
) -> Pool:
    slots = len(walks[0])
    hours = np.asarray(np.arange(slots) * profile.slot_hours, dtype=np.float64)
    level = profile.level_gpus - profile.dip_gpus * _dip(hours)
    for walk in walks:
        level += walk
    obtainable = np.minimum(level, profile.max_spot_gpus) - _hits(profile, slots, hit)
    spot = _prices(profile, hours, price)
    return Pool(
        name,
        profile.slot_hours,
        spot,
        np.full(slots, profile.on_demand_usd_per_gpu_hour),
        np.maximum(np.rint(obtainable), 0).astype(np.int64),
        EPOCH,
        profile.gpu,
    )


def _dip(hours: Floats) -> Floats:
    """Return how deep in the afternoon's dip each time is, from 0 to 1."""
    distance = np.abs(hours % 24 - _DIP_CENTRE_HOUR)
    distance = np.minimum(distance, 24 - distance)
    inside = np.minimum(distance / _DIP_HALF_WIDTH_HOURS, 1.0)
    return np.asarray(np.cos(np.pi / 2 * inside) ** 2)


def _drifting(drift: Drift, slot_hours: float, slots: int, rng: np.random.Generator) -> Floats:
    """Return a stationary random walk with the memory and spread of a drift."""
    kept = math.exp(-slot_hours / drift.memory_hours)
    shocks = rng.standard_normal(slots) * drift.spread_gpus
    shocks[1:] *= math.sqrt(1 - kept * kept)
    return _remembering(shocks, kept)


def _hits(profile: Profile, slots: int, rng: np.random.Generator) -> Floats:
    """Return what sudden outages take away; they are over within a slot or a few."""
    struck = rng.random((slots, 3))
    depth = np.where(
        struck[:, 0] < profile.hits_per_hour * profile.slot_hours,
        -np.log1p(-struck[:, 1]) * profile.hit_gpus,
        0.0,
    )
    lasting = depth.copy()
    for _ in range(3):
        depth = np.concatenate([[0.0], (depth * (struck[:, 2] < 0.3))[:-1]])
        lasting = np.maximum(lasting, depth)
    return lasting


def _prices(profile: Profile, hours: Floats, rng: np.random.Generator) -> Floats:
    """Return the spot price of every slot: constant between moves."""
    walk, leap = rng.spawn(2)
    count = math.ceil((hours[-1] + profile.slot_hours) / _MOVE_HOURS[0]) + 1
    times = np.cumsum(walk.uniform(*_MOVE_HOURS, count))
    # The logarithm of the price against its mean, move by move, without jumps.
    shocks = walk.spawn(1)[0].laplace(0.0, profile.move_share, count + 1)
    moves = np.clip(_remembering(shocks, _MOVE_TREND), -_LARGEST_MOVE, _LARGEST_MOVE)
    calm = _remembering(moves, _PRICE_MEMORY)
    jumps = np.flatnonzero(leap.random(len(hours)) < profile.jumps_per_day * profile.slot_hours / 24)
    heights = np.log(leap.spawn(1)[0].uniform(*_JUMP_FACTORS, len(jumps)))
    moments = np.sort(np.concatenate([times, hours[jumps]]))
    raised = np.zeros(len(moments))
    for start, height in zip(hours[jumps], heights, strict=True):
        age = moments - start
        fading = np.where(age >= 0, height * np.exp(-np.maximum(age, 0) / profile.fade_hours), 0.0)
        # Of several jumps the highest counts, because their sum could become implausible.
        raised = np.maximum(raised, fading)
    level = np.concatenate([calm[:1], calm[np.searchsorted(times, moments, side="right")] + raised])
    usd = profile.on_demand_usd_per_gpu_hour * profile.spot_share * np.exp(level)
    return np.asarray(np.round(usd, _DECIMALS)[np.searchsorted(moments, hours, side="right")])


def _remembering(shocks: Floats, kept: float) -> Floats:
    """Return the walk in which each step keeps a share of the one before and adds its shock."""
    return np.fromiter(
        accumulate(shocks.tolist(), lambda before, shock: kept * before + shock), np.float64, len(shocks)
    )
