"""ARIMA on a sliding window, as the authors of AHAP forecast; statsmodels does the fitting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import forecasters, hour_of_day
from slacktide_papers.forecasters.arma_model import ArmaSeries, estimator


@forecasters.register
@dataclass(frozen=True, slots=True)
class Arima:
    """Forecast by ARIMA models of price and availability, refitted on a sliding window.

    As in Kong et al. 2025. Slower than the others, and a forecast of the mean: use it to compare
    with that paper. Between fits the model is only carried forward, one exact step per slot. Where
    a window does not move, is too short, cannot be fitted, or is fitted worse than by its own last
    value, it is persistence; `notes` says how often. Needs the extra `arima` (statsmodels).
    """

    order: tuple[int, int, int] = (
        2,
        1,
        1,
    )  # lags, differences (so that forecasts begin at the present), moving averages
    window_hours: float = 168.0
    refit_hours: float = 24.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", tuple(self.order))
        if len(self.order) != 3 or not all(isinstance(one, int) and 0 <= one <= 12 for one in self.order):
            raise InputError(f"order must be three whole numbers in 0..12, got {self.order}")
        if self.order[1] > 1 or self.order[0] + self.order[2] == 0:
            raise InputError(
                f"order must have 0 or 1 differences and a lag or moving average, got {self.order}"
            )
        if not 0 < self.refit_hours <= self.window_hours:
            raise InputError(
                "refit_hours must be > 0 and at most window_hours, "
                f"got {self.refit_hours} and {self.window_hours}"
            )

    def begin(self, slot_hours: float, hour_of_day: float) -> _Pair:
        return _Pair(self, slot_hours)

    def table(self, pool: Pool, horizon: int) -> Floats:
        return _walk(self, pool, horizon)[0]

    def notes(self, pool: Pool, horizon: int) -> tuple[str, ...]:
        """Say how often, and why, persistence had to stand in."""
        return _walk(self, pool, horizon)[1]


class _Pair:
    """The two series of a pool."""

    def __init__(self, how: Arima, slot_hours: float) -> None:
        estimator()  # a missing library is reported at once, not in the middle of a run
        window, refit = (max(1, round(hours / slot_hours)) for hours in (how.window_hours, how.refit_hours))
        self._price = ArmaSeries(how.order, window, refit)
        self._gpus = ArmaSeries(how.order, window, refit)
        self._on_demand_usd = 0.0

    def learn(self, quote: Quote) -> None:
        self._price.learn(float(quote.spot_usd_per_gpu_hour))
        self._gpus.learn(float(quote.spot_gpus))
        self._on_demand_usd = quote.on_demand_usd_per_gpu_hour

    def ahead(self, horizon: int) -> Floats:
        """Return a row (price, on demand, GPUs) per slot ahead; GPUs may be fractions."""
        out = np.empty((horizon, 3))
        out[:, 0], out[:, 2] = self._price.forecast(horizon), self._gpus.forecast(horizon)
        out[:, 1] = self._on_demand_usd
        return out

    def forecast(self, horizon: int) -> Sequence[Quote]:
        return [Quote(usd, listed, round(gpus)) for usd, listed, gpus in self.ahead(horizon).tolist()]

    def outcomes(self) -> dict[str, Counter[str]]:
        """Return how the fits of each series ended, counted."""
        return {"price": self._price.outcomes, "availability": self._gpus.outcomes}


@lru_cache(maxsize=32)
def _walk(how: Arima, pool: Pool, horizon: int) -> tuple[Floats, tuple[str, ...]]:
    """Fill the table of a pool and report what happened on the way; fits are expensive, so both are kept."""
    pair = how.begin(pool.slot_hours, hour_of_day(pool))
    table = np.empty((len(pool), horizon, 3))
    for slot in range(len(pool)):
        pair.learn(pool.quote(slot))
        table[slot] = pair.ahead(horizon)
    return table, tuple(_sentences(pool, pair))


def _sentences(pool: Pool, pair: _Pair) -> list[str]:
    notes = []
    for series, outcomes in pair.outcomes().items():
        failed = {why: times for why, times in outcomes.items() if why != "fitted"}
        if not outcomes:
            notes.append(f"{pool.name}: too short to fit the {series}; as persistence")
        if failed:
            why = ", ".join(f"{times} × {reason}" for reason, times in failed.items())
            total = sum(outcomes.values())
            notes.append(
                f"{pool.name}: {sum(failed.values())} of {total} fits of the {series} as persistence ({why})"
            )
    return notes
