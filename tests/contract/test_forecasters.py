"""Every registered forecaster against every check of the contract."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from slacktide.checks import FORECASTER_CHECKS, CheckFailed, check_forecaster
from slacktide.checks.forecaster import ForecasterCheck, pools
from slacktide.core.arrays import Floats
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster, forecasters
from slacktide.market.forecast.harmonic import Harmonic
from slacktide_papers.forecasters.arima import Arima
from slacktide_papers.forecasters.noisy_truth import NoisyTruth
from slacktide_papers.forecasters.seasonal import Seasonal
from tests.parts_of_effort import examples

UNKIND = 6
"""The first pools are each of another kind, and all are tried; random ones follow."""
EVERY: dict[str, Forecaster] = {
    **{name: forecasters.make(name) for name in forecasters},
    "arima, without differences": Arima((1, 0, 0), window_hours=100.0),
    "harmonic, short reach": Harmonic(memory_days=2.0, harmonics=0, levels=3, reach_slots=2),
    "seasonal, one day": Seasonal(days=1, half_life_hours=1.0),
    "noisy-truth, heavy-tailed": NoisyTruth(1.0, "heavy-tailed", "fixed"),
}


@pytest.mark.parametrize("check", FORECASTER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("forecaster", EVERY.values(), ids=EVERY)
def test_forecaster_keeps_the_contract(forecaster: Forecaster, check: ForecasterCheck) -> None:
    if isinstance(forecaster, Arima) and importlib.util.find_spec("statsmodels") is None:
        pytest.skip("needs the extra 'arima'")
    rng = np.random.default_rng(7)
    for pool in pools(7, UNKIND + examples(6)):
        check(forecaster, pool, rng)


class Last:
    """A learner that forecasts the last quote."""

    def __init__(self) -> None:
        self.past: list[Quote] = [Quote(0.0, 0.0, 0)]

    def learn(self, quote: Quote) -> None:
        self.past = [quote]

    def forecast(self, horizon: int) -> Sequence[Quote]:
        return [self.past[-1]] * horizon


@dataclass(frozen=True)
class Coy:
    """Refuses until it has seen something."""

    class Learner(Last):
        def forecast(self, horizon: int) -> Sequence[Quote]:
            assert self.past[-1].on_demand_usd_per_gpu_hour
            return super().forecast(horizon)

    def begin(self, slot_hours: float, hour_of_day: float) -> Last:
        return self.Learner()


@dataclass(frozen=True)
class Boastful:
    """Promises more than was ever seen."""

    class Learner(Last):
        def forecast(self, horizon: int) -> Sequence[Quote]:
            return [quote._replace(spot_gpus=quote.spot_gpus + 1) for quote in super().forecast(horizon)]

    def begin(self, slot_hours: float, hour_of_day: float) -> Last:
        return self.Learner()


class Hoarder(Last):
    def learn(self, quote: Quote) -> None:
        self.past.append(quote)


@dataclass(frozen=True)
class Hoarding:
    """Keeps every quote."""

    def begin(self, slot_hours: float, hour_of_day: float) -> Last:
        return Hoarder()


@dataclass(frozen=True)
class Seer:
    """Looks ahead in the table."""

    def begin(self, slot_hours: float, hour_of_day: float) -> Last:
        return Last()

    def table(self, pool: Pool, horizon: int) -> Floats:
        out = np.zeros((len(pool), horizon, 3))
        out[:, :, 0] = pool.spot_usd_per_gpu_hour.mean()
        out[:, :, 1] = pool.on_demand_usd_per_gpu_hour[:, None]
        return out


@dataclass(frozen=True)
class Moody:
    """Writes another table than its learner says."""

    def begin(self, slot_hours: float, hour_of_day: float) -> Last:
        return Last()

    def table(self, pool: Pool, horizon: int) -> Floats:
        out = np.zeros((len(pool), horizon, 3))
        out[:, :, 1] = pool.on_demand_usd_per_gpu_hour[:, None]
        return out


@pytest.mark.parametrize(
    ("forecaster", "words"),
    [
        (Coy(), "never refuse"),
        (Boastful(), "at most"),
        (Hoarding(), "grow"),
        (Seer(), "future"),
        (Moody(), "agree"),
    ],
    ids=lambda thing: type(thing).__name__ if not isinstance(thing, str) else thing,
)
def test_checks_catch_a_forecaster_that_breaks_the_contract(forecaster: Forecaster, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_forecaster(forecaster)
