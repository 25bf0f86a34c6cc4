"""The seasonal forecast: a vote between the present and the last days at that time."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.market.base import Pool
from slacktide.market.forecast.base import GPUS, forecast_table
from slacktide_papers.forecasters.seasonal import Seasonal
from tests import build


def daily(days: int, slot_hours: float = 1.0) -> Pool:
    hours = np.arange(0, 24 * days, slot_hours)
    gpus = np.where((hours % 24 >= 13) & (hours % 24 < 20), 0, 8)
    return build.pool(1.0 + gpus / 8, 4.0, gpus, name="zone", slot_hours=slot_hours)


def test_beyond_the_half_life_the_days_decide() -> None:
    pool = daily(4)
    table = forecast_table(Seasonal(half_life_hours=2.5), pool, 6)
    noon = 3 * 24 + 12
    assert table[noon, :, GPUS].tolist() == [8, 8, 0, 0, 0, 0]
    assert table[noon, 4, 0] == 1.0


def test_first_day_is_persistence() -> None:
    pool = daily(1)
    table = forecast_table(Seasonal(half_life_hours=1.0), pool, 8)
    assert (table[:10, :, GPUS] == 8).all()
    assert "persistence" in Seasonal().notes(pool, 8)[0]
    assert Seasonal().notes(daily(8), 8) == ()


def test_forgets_older_days() -> None:
    pool = daily(10)
    gpus = pool.spot_gpus.copy()
    gpus[24 * 7 :] = 8  # the closing time was given up three days ago
    changed = Pool("zone", 1.0, pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour, gpus)
    at = 24 * 9 + 8
    assert forecast_table(Seasonal(days=2, half_life_hours=1.0), changed, 8)[at, 7, GPUS] == 8
    assert forecast_table(Seasonal(days=9, half_life_hours=1.0), changed, 8)[at, 7, GPUS] == 0


@pytest.mark.parametrize("slot_hours", [195 / 3600, 0.5, 7.0, 24.0, 50.0])
def test_any_slot_length_has_its_place_in_the_day(slot_hours: float) -> None:
    pool = daily(30, slot_hours) if slot_hours > 1 else daily(2, slot_hours)
    assert np.isfinite(forecast_table(Seasonal(), pool, 5)).all()


@pytest.mark.parametrize("wrong", [{"days": 0}, {"half_life_hours": 0.0}])
def test_refuses_senseless_parameters(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Seasonal(**wrong)
