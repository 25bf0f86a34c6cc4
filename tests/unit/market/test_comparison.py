"""Pools are compared by one measure, and moves are listed by region."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.arrays import Floats
from slacktide.market.base import Market, Moves, Pool, digest
from slacktide.market.pools.statistics import MoveBetween, largest_gpus, moves_between, side_by_side
from slacktide.market.source import open_market
from slacktide.market.synthetic import (
    PROFILES,
    Drift,
    Profile,
    SharedDrifts,
    region_of_number,
    synthesize,
)
from slacktide.report.text.tables.market import comparison, moves_words
from tests import build
from tests.unit.market.parts_of_dependence import Dependence, dependence
from tests.unit.market.parts_of_profiles import ZONES, ZonesTarget

START = datetime(2025, 10, 4, tzinfo=UTC)


def pool(name: str, gpus: list[int], usd: list[float]) -> Pool:
    return build.pool(usd, 10.0, gpus, name=name, slot_hours=1.0, start=START, gpu="H100")


MARKET = Market(
    (
        pool("us-east1-b", [8, 4, 0, 8], [1.0, 2.0, 3.0, 4.0]),
        pool("us-east1-c", [0, 0, 0, 0], [2.0] * 4),
        pool("europe-west4-a", [2, 2, 4, 2], [3.0] * 4),
    ),
    moves=Moves(gbit_per_s=10.0),
)


def test_shares_are_of_the_most_that_any_pool_had() -> None:
    east, none, west = side_by_side(MARKET)
    assert largest_gpus(MARKET) == 8
    assert (east.any_share, east.half_of_largest_share, east.largest_share) == (0.75, 0.75, 0.5)
    assert (west.any_share, west.half_of_largest_share, west.largest_share) == (1.0, 0.25, 0.0)
    assert (none.any_share, none.up_mean_hours, none.down_mean_hours) == (0.0, None, 4.0)
    assert (east.spot_now_usd, east.spot_mean_usd, east.spot_now_gpus) == (4.0, 2.5, 8)
    assert (east.up_mean_hours, east.down_mean_hours) == (1.5, 1.0)


def test_moves_are_told_once_for_two_regions() -> None:
    found = moves_between(MARKET)
    inside, across = found
    assert inside == MoveBetween("us-east1", "us-east1", 0.0, 0.0)
    assert (across.region, across.other, across.usd_per_gb) == ("us-east1", "europe-west4", 0.08)
    assert across.minutes_per_100_gb == pytest.approx(80.0 / 60.0)
    free, far = moves_words(found)
    assert "0 USD per GB, at once: within us-east1" in free
    assert "0.08 USD per GB" in far
    assert "us-east1 to europe-west4" in far


def test_a_market_without_spot_is_told_too() -> None:
    empty = Market((pool("a", [0, 0], [1.0, 1.0]), pool("b", [0, 0], [1.0, 1.0])))
    assert [one.largest_share for one in side_by_side(empty)] == [0.0, 0.0]
    assert len(comparison(side_by_side(empty), 0).rows) == 2


SEEDS = range(100, 148)
"""Others than those that the parameters were fitted on, which were 0 to 23."""
DAYS = 30
CORRELATION = 0.06
"""Generated correlations may be off by so much."""
ALL_DOWN = 0.012
LOSS = 0.04

FIRST_POOLS = {
    "h100": "ff39cbbc9b6bb34e983ee2871afce5dac86f2bd64b27eea6fb936460f4a35096",
    "h100-good": "2472d84082550ccc29944f4f867c5840f7a33a52aec0ae8258b06b9db54bf783",
    "h100-scarce": "bfec55e778db79867f953166086f3c401facbf378e09ef39ceedf05641331d10",
    "v100": "ee37f3341def79e388dbc760bbb35a5dbe325103039bb42ec5b0fc5d42f7b6f8",
    "volatile": "5466d4091b0374b3cf2b55b6736cb8016e9ad2bcf50ad8ab10737d499326abd8",
}
"""Digests of the first pool, 20 days of seed 3, from before pools depended on each other."""


def pool_of(name: str, *gpus: int) -> Pool:
    ones = np.ones(len(gpus))
    return Pool(name, 0.5, ones, ones, np.array(gpus))


def test_pools_that_go_together_and_pools_that_do_not() -> None:
    up = [1, 1, 0, 0, 1, 1, 0, 0] * 20
    turned = [1, 0, 0, 1] * 40
    found = dependence(
        Market((pool_of("us-east-1a", *up), pool_of("us-east-1b", *up), pool_of("us-east-2a", *turned)))
    )
    assert found.correlation_within == pytest.approx(1.0)
    assert found.correlation_between == pytest.approx(0.0, abs=0.01)
    assert (found.all_down_share, found.all_down_if_independent) == pytest.approx((0.25, 0.125))


def test_a_loss_counts_in_the_same_slot_and_until_an_hour_later() -> None:
    # The second goes whenever the first does, at once or a slot later; a slot has half an hour.
    one = pool_of("a", *([1, 1, 1, 1, 0, 1, 1, 1] * 30))
    at_once, later = (
        pool_of("b", *([1, 1, 1, 1, 0, 1, 1, 1] * 30)),
        pool_of("b", *([1, 1, 1, 1, 1, 0, 1, 1] * 30)),
    )
    never = pool_of("b", *([1] * 240))
    for other, least in ((at_once, 0.7), (later, 0.3)):
        found = dependence(Market((one, other)))
        assert found.loss_after_loss is not None
        assert found.loss_after_loss > least
    assert dependence(Market((one, never))).loss_after_loss == pytest.approx(0.0)
    assert dependence(Market((one, never))).correlation_between is None


def test_only_the_common_time_counts() -> None:
    early = pool_of("a", *([1, 0] * 10))
    late = build.pool(1.0, 1.0, [0, 1] * 3, name="b", start=early.time(4))
    assert dependence(Market((early, late))).correlation_between == pytest.approx(-1.0)


def generated(profile: Profile) -> Dependence:
    """Return the mean figures of generated markets of as many pools as the target has."""
    pools = ZONES[profile.name].pools
    regions = [region_of_number(number) for number in range(1, pools + 1)]
    each = [dependence(synthesize(profile, days=DAYS, seed=seed, pools=pools), regions) for seed in SEEDS]
    means = (np.mean([getattr(one, name) or 0.0 for one in each]) for name in Dependence.__slots__)
    return Dependence(*map(float, means))


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_generated_pools_depend_on_each_other_as_the_targets_say(name: str) -> None:
    target, made = ZONES[name], generated(PROFILES[name])
    assert made.correlation_within == pytest.approx(target.correlation_within, abs=CORRELATION)
    assert made.correlation_between == pytest.approx(target.correlation_between, abs=CORRELATION)
    if name in ("h100", "v100"):  # the others are made of zones that are all scarce, all good or all volatile
        assert made.all_down_share == pytest.approx(target.all_down_share, abs=ALL_DOWN)
        assert made.loss_after_loss == pytest.approx(target.loss_after_loss, abs=LOSS)
    if name == "v100":
        assert made.all_down_share > 4 * made.all_down_if_independent


TRACES = {"h100": "gcp-h100-2025.csv.gz", "v100": "aws-v100-2023.csv.gz"}


@pytest.mark.parametrize("name", sorted(TRACES))
def test_the_targets_are_figures_of_real_zones(name: str, real_data: Path) -> None:
    market = open_market(str(real_data / "markets" / TRACES[name]))
    target, real = ZONES[name], dependence(market)
    assert target.pools == len(market)
    for figure in set(ZonesTarget.__slots__) - {"pools"}:
        assert getattr(target, figure) == pytest.approx(getattr(real, figure), abs=0.002), figure


@pytest.mark.parametrize("pools", [1, 2, 5])
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_first_pool_is_what_it_has_always_been(name: str, pools: int) -> None:
    market = synthesize(PROFILES[name], days=20, seed=3, pools=pools)
    assert digest(Market(market.pools[:1])) == FIRST_POOLS[name]


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_more_pools_and_more_days_leave_the_others_as_they_are(name: str) -> None:
    few = synthesize(PROFILES[name], days=4, seed=2, pools=3)
    more = synthesize(PROFILES[name], days=6, seed=2, pools=7)
    for one in few.pools:
        other = more[one.name].window(0, len(one))
        assert one.spot_gpus.tolist() == other.spot_gpus.tolist()
        assert one.spot_usd_per_gpu_hour.tolist() == other.spot_usd_per_gpu_hour.tolist()


def test_zones_differ_in_level_and_price_but_not_on_demand() -> None:
    pools = synthesize(PROFILES["v100"], days=30, seed=1, pools=12).pools
    shares = [float((one.spot_gpus > 0).mean()) for one in pools]
    prices = [float(one.spot_usd_per_gpu_hour.mean()) for one in pools]
    assert 0.05 < np.std(shares) < 0.3
    assert 0.05 < np.std(prices) / np.mean(prices) < 0.25
    assert {float(one.on_demand_usd_per_gpu_hour[0]) for one in pools} == {3.06}


def test_what_is_shared_takes_the_place_of_a_pools_own_drift() -> None:
    """Walks keep their spread and are as alike as the shares say, also with the first, which is given."""
    profile, slots = PROFILES["v100"], 40_000

    def noise(drift: Drift, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.standard_normal(slots) * drift.spread_gpus)

    rngs = [np.random.default_rng([9, number]) for number in range(4)]
    own = [[noise(drift, rng) for drift in profile.drifts] for rng in rngs]
    shared = SharedDrifts(profile, 0, own[0], noise)
    walks = [own[0], *(shared.mixed(number, own[number - 1]) for number in (2, 3, 4))]
    within, between = profile.zones.within_share, profile.zones.between_share
    for which, drift in enumerate(profile.drifts):
        alike = np.cov([walk[which] for walk in walks]) / drift.spread_gpus**2
        expected = np.full((4, 4), between)
        expected[:2, :2] = expected[2:, 2:] = within
        np.fill_diagonal(expected, 1.0)
        np.testing.assert_allclose(alike, expected, atol=0.03)
