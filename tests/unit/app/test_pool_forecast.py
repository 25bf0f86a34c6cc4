"""Forecasts of a pool: nothing after the present is looked at, and how good they are is told."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from slacktide.app.markets.market_now import MOMENTS, forecast
from slacktide.market.base import Market, Pool
from tests import build

SLOT = 0.5
NOW = 400


def pool(seed: int = 0, slots: int = 500) -> Pool:
    """A pool whose spot comes and goes, and whose price wanders."""
    draw = np.random.default_rng(seed)
    gpus = np.repeat(draw.integers(0, 9, slots // 5), 5)
    usd = 2.0 + 0.2 * np.sin(np.arange(slots) / 9.0) + 0.01 * draw.normal(size=slots)
    return build.pool(usd, 8.0, gpus, name="zone", slot_hours=SLOT)


def test_the_future_is_not_looked_at() -> None:
    whole = pool()
    another = dataclasses.replace(
        whole,
        spot_gpus=np.where(np.arange(500) > NOW, 77, whole.spot_gpus),
        spot_usd_per_gpu_hour=np.where(np.arange(500) > NOW, 99.0, whole.spot_usd_per_gpu_hour),
    )
    assert forecast(Market((whole,)), "zone", NOW, 24.0) == forecast(Market((another,)), "zone", NOW, 24.0)


def test_bands_begin_with_what_is_known_and_cover_the_time() -> None:
    found = forecast(Market((pool(),)), "zone", NOW, 24.0)
    assert len(found.spot_gpus.p50) == len(found.spot_share) == 49
    assert found.spot_gpus.p10[0] == found.spot_gpus.p90[0] == pool().spot_gpus[NOW]
    for bands in (found.spot_gpus, found.spot_usd_per_gpu_hour):
        assert all(
            low <= middle <= high for low, middle, high in zip(*dataclasses.astuple(bands), strict=True)
        )
    assert all(0.0 <= share <= 1.0 for share in found.spot_share)


def test_how_the_model_did_is_told_where_there_is_enough_past() -> None:
    check = forecast(Market((pool(),)), "zone", NOW, 24.0).check
    assert check is not None
    assert (check.moments, check.hours) == (MOMENTS, (1.0, 6.0, 24.0))
    assert None not in (*check.price_skill, *check.gpus_skill)
    assert 0.0 <= check.price_inside_share <= 1.0
    assert forecast(Market((pool(),)), "zone", 60, 24.0).check is None


@pytest.mark.parametrize("gpus", [0, 500])
def test_a_pool_without_spot_and_one_with_plenty(gpus: int) -> None:
    flat = dataclasses.replace(pool(), spot_gpus=np.full(500, gpus))
    found = forecast(Market((flat,)), "zone", NOW, 6.0)
    assert set(found.spot_gpus.p50) == {min(gpus, found.most_gpus)}
    assert found.check is not None
    assert found.check.gpus_skill == (None, None), "stays as it is cannot be beaten"
