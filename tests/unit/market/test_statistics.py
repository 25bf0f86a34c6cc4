"""Figures of a pool, on series small enough to count by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from slacktide.market.base import Pool
from slacktide.market.pools.statistics import autocorrelation, by_hour, describe, spells_of
from tests import build


def pool(gpus: list[int], slot_hours: float = 1.0, start: datetime | None = None) -> Pool:
    prices = np.linspace(1.0, 2.0, len(gpus)) if len(gpus) > 1 else np.ones(1)
    begin = start or datetime(2025, 1, 1, tzinfo=UTC)
    return build.pool(prices, 6.0, gpus, name="a", slot_hours=slot_hours, start=begin)


def test_figures_counted_by_hand() -> None:
    figures = describe(pool([0, 1, 4, 4, 0, 0, 2, 0]))
    assert figures.any_share == 0.5
    assert figures.half_share == 3 / 8
    assert figures.full_share == 0.25
    assert figures.mean_spot_gpus == 11 / 8
    assert figures.losses_per_day == 2 / (8 / 24)
    assert (figures.up_median_hours, figures.up_mean_hours) == (2.0, 2.0)
    assert figures.down_mean_hours == pytest.approx(4 / 3)
    assert (figures.spot_min_usd, figures.spot_mean_usd, figures.spot_max_usd) == (1.0, 1.5, 2.0)
    assert figures.price_share == 0.25
    assert figures.price_moves_per_day == 7 / (8 / 24)


def test_a_market_without_spot_and_one_always_full_have_figures() -> None:
    none = describe(pool([0, 0]))
    assert (none.any_share, none.half_share, none.full_share) == (0, 0, 0)
    assert none.up_median_hours is None
    assert none.autocorrelation_1h is None
    full = describe(pool([4]))
    assert (full.any_share, full.full_share, full.losses_per_day) == (1, 1, 0)
    assert full.down_mean_hours is None


def test_a_free_market_has_no_price_share() -> None:
    free = build.pool(0.0, 0.0, 1, slots=2, name="a", slot_hours=1.0)
    assert describe(free).price_share is None


def test_spells_are_counted_in_hours() -> None:
    spells = spells_of(pool([0, 1, 4, 4, 0, 0, 2, 0], slot_hours=0.5))
    assert spells.up_hours.tolist() == [1.5, 0.5]
    assert spells.down_hours.tolist() == [0.5, 1.0, 0.5]


def test_hours_of_the_day_are_in_utc_and_unseen_ones_are_none() -> None:
    hours = by_hour(pool([1, 0, 1, 1], slot_hours=0.5, start=datetime(2025, 1, 1, 23, tzinfo=UTC)))
    assert hours[23] == 0.5
    assert hours[0] == 1.0
    assert hours[1] is None


def test_a_daily_rhythm_repeats_after_a_day() -> None:
    flags = np.tile(np.arange(24) < 12, 10)
    assert autocorrelation(flags, 24) == pytest.approx(1.0)
    assert autocorrelation(flags, 12) == pytest.approx(-1.0)
    assert autocorrelation(flags, 0) is None
    assert autocorrelation(flags, 400) is None
