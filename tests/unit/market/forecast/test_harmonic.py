"""The online regression: plain equals compiled, it learns what can be learnt, it is never far off."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.market.base import Pool
from slacktide.market.forecast.base import GPUS, PRICE, forecast_table
from slacktide.market.forecast.harmonic import PRIOR, Harmonic, blank, fill, waves
from slacktide.market.forecast.persistence import Persistence
from slacktide.market.forecast.score import score
from slacktide.market.source import open_market
from tests import build


def pool_of(gpus: Floats, usd: Floats | None = None, slot_hours: float = 0.5) -> Pool:
    prices = np.ones(len(gpus)) if usd is None else usd
    return build.pool(prices, 4.0, gpus.astype(np.int64), name="zone", slot_hours=slot_hours)


def test_plain_and_compiled_are_equal_to_the_last_digit() -> None:
    pool = open_market("synthetic:volatile?days=4&slot=30m").pools[0]
    table = Harmonic().table(pool, 5)
    hours = [pool.start.hour + slot * pool.slot_hours for slot in range(len(pool))]
    for column, constants in zip((PRICE, GPUS), Harmonic().models(pool.slot_hours), strict=True):
        amounts = (pool.spot_usd_per_gpu_hour, pool.spot_gpus)[column // 2].astype(np.float64)
        plain = np.empty((len(pool), 5))
        fill(constants, blank(5, 2, constants.levels), amounts, waves(hours, 2), plain)
        assert np.array_equal(plain, table[:, :, column])


def test_without_forgetting_every_horizon_is_ridge_regression() -> None:
    rng = np.random.default_rng(3)
    amounts = np.abs(np.cumsum(rng.normal(size=80))) + 1.0
    amounts[0] = amounts.max()  # the scale is then known from the start
    constants = Harmonic(memory_days=1e15).models(1.0)[0]._replace(believe=1e9)
    memory = blank(3, 1, 0)
    rows = []
    for slot, amount in enumerate(amounts):
        fill(constants, memory, np.array([amount]), waves([float(slot)], 1), np.empty((1, 3)))
        rows.append(memory.features[slot % 4].copy())
    for ahead in (1, 2, 3):
        x, y = np.array(rows[:-ahead]), (amounts[ahead:] - amounts[:-ahead]) / amounts.max()
        ridge = np.linalg.solve(x.T @ x + np.eye(x.shape[1]) / PRIOR, x.T @ y)
        assert memory.coefficients[ahead - 1, 0] == pytest.approx(ridge, rel=1e-6, abs=1e-9)


def test_learns_a_daily_closing_time() -> None:
    hours = np.arange(0, 24 * 20, 0.5)
    gpus = np.where((hours % 24 >= 13) & (hours % 24 < 20), 0, 8)
    rivals = score(pool_of(gpus), {"harmonic": Harmonic()}, horizon=12).scores
    assert rivals[1].gpus_error[11] < 0.35 * rivals[0].gpus_error[11]


def test_learns_that_a_price_returns() -> None:
    rng = np.random.default_rng(1)
    usd = np.empty(2000)
    usd[0] = 2.0
    for slot in range(1, len(usd)):
        usd[slot] = max(0.1, 2.0 + 0.8 * (usd[slot - 1] - 2.0) + rng.normal(0.0, 0.2))
    rivals = score(pool_of(np.ones(len(usd)), usd), {"harmonic": Harmonic()}, horizon=8).scores
    assert (rivals[1].price_skill[7] or 0.0) > 0.15


@pytest.mark.parametrize("profile", ["h100", "h100-scarce", "v100", "volatile"])
def test_is_never_much_worse_than_persistence(profile: str) -> None:
    for pool in open_market(f"synthetic:{profile}?days=14&slot=30m&pools=2").pools:
        _, mine = score(pool, {"harmonic": Harmonic()}, horizon=12).scores
        for skill in (mine.gpus_skill, mine.price_skill):
            assert np.mean([one or 0.0 for one in skill]) > -0.05


def test_begins_as_persistence() -> None:
    pool = pool_of(np.array([3, 0, 8, 8, 1]))
    first = slice(0, 1)
    assert np.array_equal(
        forecast_table(Harmonic(), pool, 4)[first], forecast_table(Persistence(), pool, 4)[first]
    )
    assert "too short" in Harmonic().notes(pool, 4)[0]


def test_a_year_of_nothing_does_not_blow_up() -> None:
    gpus = np.zeros(9000)
    gpus[:50] = np.tile([0, 8], 25)
    gpus[-20:] = 8
    table = Harmonic(memory_days=1.0).table(pool_of(gpus, slot_hours=1.0), 3)
    assert np.isfinite(table).all()
    assert table[-1, 0, GPUS] == 8


def test_slots_beyond_its_reach_are_as_the_last_within() -> None:
    pool = open_market("synthetic:volatile?days=5&slot=1h").pools[0]
    far, near = Harmonic(reach_slots=2).table(pool, 6), Harmonic().table(pool, 2)
    assert np.array_equal(far[:, :2], near)
    assert np.array_equal(far[:, 2:], np.repeat(near[:, 1:2], 4, axis=1))


def test_knows_the_hour_of_a_pool_that_begins_at_noon() -> None:
    gpus = np.tile([4, 0, 4, 4], 60)
    noon = build.pool(1.0, 1.0, gpus, name="z", slot_hours=6.0, start=datetime(2025, 1, 1, 12, tzinfo=UTC))
    assert np.abs(Harmonic().table(noon, 1)[100:-1, 0, GPUS] - gpus[101:]).mean() < 0.2


@pytest.mark.parametrize(
    "wrong", [{"memory_days": 0.0}, {"harmonics": -1}, {"levels": 0}, {"reach_slots": 0}]
)
def test_refuses_senseless_parameters(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Harmonic(**wrong)  # type: ignore[arg-type]
