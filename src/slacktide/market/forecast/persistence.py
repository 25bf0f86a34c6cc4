"""The forecast that nothing changes, which every other forecaster has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster, forecasters


@forecasters.register
@dataclass(frozen=True, slots=True)
class Persistence:
    """Forecast that the market stays as it is.

    Hard to beat for prices, which move slowly; choose something better for availability.
    """

    def begin(self, slot_hours: float, hour_of_day: float) -> _Last:
        return _Last()

    def table(self, pool: Pool, horizon: int) -> Floats:
        columns = (pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour, pool.spot_gpus)
        now = np.stack(columns, axis=1).astype(np.float64)
        return np.repeat(now[:, None, :], horizon, axis=1)


class _Last:
    """The last quote, with on-demand GPUs assumed to be unlimited."""

    def __init__(self) -> None:
        self._quote = Quote(0.0, 0.0, 0)

    def learn(self, quote: Quote) -> None:
        self._quote = Quote(*quote[:3])

    def learn_many(self, spot_usd: Floats, on_demand_usd: Floats, spot_gpus: Ints) -> None:
        if len(spot_gpus):
            self._quote = Quote(float(spot_usd[-1]), float(on_demand_usd[-1]), int(spot_gpus[-1]))

    def forecast(self, horizon: int) -> Sequence[Quote]:
        return [self._quote] * horizon


DEFAULT_FORECASTER: Forecaster = Persistence()
DEFAULT_HORIZON = 5
"""How far forecasts reach unless a run says otherwise: the longest window of the usual policies."""
