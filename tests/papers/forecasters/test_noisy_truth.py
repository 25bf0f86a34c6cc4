"""The truth with noise: perfect at level 0, as noisy as told, seeded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.source import open_market
from slacktide_papers.forecasters.noisy_truth import NoisyTruth


@pytest.fixture
def pool() -> Pool:
    return open_market("synthetic:volatile?days=10&slot=30m").pools[0]


def test_without_noise_it_is_the_truth(pool: Pool) -> None:
    table = NoisyTruth(0.0).table(pool, 3)
    for slot, ahead in ((0, 1), (17, 3), (len(pool) - 1, 2)):
        assert Quote(*table[slot, ahead - 1]) == pool.quote(slot + ahead)


def test_uniform_noise_stays_within_its_level(pool: Pool) -> None:
    exact, noisy = NoisyTruth(0.0).table(pool, 4)[:, :, 0], NoisyTruth(0.3).table(pool, 4)[:, :, 0]
    off = np.abs(noisy / exact - 1)
    assert off.max() <= 0.3
    assert off.mean() == pytest.approx(0.15, abs=0.01)


def test_heavy_tailed_noise_is_as_large_on_average_and_sometimes_far_larger(pool: Pool) -> None:
    exact = NoisyTruth(0.0).table(pool, 12)[:, :, 0]
    off = np.abs(NoisyTruth(0.1, "heavy-tailed").table(pool, 12)[:, :, 0] / exact - 1)
    assert off.mean() == pytest.approx(0.05, rel=0.2)
    assert off.max() > 0.5


def test_fixed_noise_does_not_shrink_with_the_value(pool: Pool) -> None:
    exact = NoisyTruth(0.0).table(pool, 12)[:, :, 2]
    none = exact == 0
    assert (NoisyTruth(0.5, scale="magnitude").table(pool, 12)[:, :, 2][none] == 0).all()
    assert (NoisyTruth(0.5, scale="fixed").table(pool, 12)[:, :, 2][none] > 0).any()


def test_seed_and_pool_decide_the_noise(pool: Pool) -> None:
    one, again, other = (NoisyTruth(seed=seed).table(pool, 3) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("wrong", [{"level": -0.1}, {"noise": "pink"}, {"scale": "huge"}])
def test_refuses_senseless_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        NoisyTruth(**wrong)
