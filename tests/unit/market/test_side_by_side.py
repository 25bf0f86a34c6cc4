"""Pools are compared by one measure, and moves told by region."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slacktide.market.base import Market, Pool
from slacktide.market.pools.moves import Moves
from slacktide.market.pools.side_by_side import MoveBetween, largest_gpus, moves_between, side_by_side
from slacktide.report.text.tables.pools import comparison, moves_words
from tests import build

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
