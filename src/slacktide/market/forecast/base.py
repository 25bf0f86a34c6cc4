"""What forecasters share: their contract, their register, and the forecasts of a whole run at once.

The forecaster belongs to the run, not to the policy: a hundred policies share one table of
forecasts, and the same policy can be tried with a perfect, a noisy or no forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, overload, runtime_checkable

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.quotes import Quote
from slacktide.core.register import Register
from slacktide.market.base import Pool
from slacktide.market.tape import Past

PRICE, ON_DEMAND, GPUS = range(3)
"""Columns of a table of forecasts."""


class Learner(Protocol):
    """A forecaster at work on one pool: gets every quote in order, and can forecast after any of them."""

    def learn(self, quote: Quote) -> None:
        """Take in the quote of the next slot."""
        ...

    def forecast(self, horizon: int) -> Sequence[Quote]:
        """Return quotes for the next slots; never refuses, even before the first quote."""
        ...


@runtime_checkable
class BulkLearner(Protocol):
    """A learner that can take in many quotes faster than one by one."""

    def learn_many(self, spot_usd: Floats, on_demand_usd: Floats, spot_gpus: Ints) -> None:
        """Do what `learn` does with each of these slots."""
        ...


@runtime_checkable
class Forecaster(Protocol):
    """A way to forecast: frozen parameters, and a learner for each pool."""

    def begin(self, slot_hours: float, hour_of_day: float) -> Learner:
        """Return a learner for a pool whose first slot begins at this hour of the day (UTC)."""
        ...

    def __hash__(self) -> int: ...


@runtime_checkable
class TableForecaster(Protocol):
    """A forecaster that can fill the table of a whole pool faster than slot by slot.

    One that *needs* all of it declares `knows_the_future = True`: it is for experiments, and the only kind
    that is handed a pool where a policy is shown a forecast.
    """

    def table(self, pool: Pool, horizon: int) -> Floats:
        """Return what `forecast_table` returns."""
        ...


forecasters: Register[Forecaster] = Register(
    "forecaster",
    packages=("slacktide.market.forecast",),
    entry_points="slacktide.forecasters",
    papers=("arima", "noisy-truth"),
)
"""All known forecasters; `@forecasters.register` adds one."""


def knows_the_future(forecaster: Forecaster) -> bool:
    """Whether a forecaster says of itself that it knows what will come: only for experiments."""
    return bool(getattr(forecaster, "knows_the_future", False))


def hour_of_day(series: Pool | Past, slot: int = 0) -> float:
    """Return the time of day at which a slot begins, in hours UTC."""
    return (series.first_hour_of_day + slot * series.slot_hours) % 24.0


def clock(hour: float, slots: int, slot_hours: float) -> Floats:
    """Return the time of day of slots from one at this hour on, in hours UTC."""
    return np.mod(hour + np.arange(slots, dtype=np.float64) * slot_hours, 24.0)


def forecast_table(forecaster: Forecaster, pool: Pool, horizon: int) -> Floats:
    """Return the forecasts made in every slot of a pool, that slot's quote known.

    The entry [slot, ahead - 1] is (spot USD, on-demand USD, spot GPUs) forecast in `slot` for
    `slot + ahead`. Computed once and shared by all policies of a run; forecasters are frozen, so
    that the same one is known again.
    """
    return _kept(forecaster, pool, horizon)


def _table(forecaster: Forecaster, pool: Pool, horizon: int) -> Floats:
    if isinstance(forecaster, TableForecaster):
        return forecaster.table(pool, horizon)
    learner = forecaster.begin(pool.slot_hours, hour_of_day(pool))
    table = np.empty((len(pool), horizon, 3))
    for slot in range(len(pool)):
        learner.learn(pool.quote(slot))
        for ahead, quote in enumerate(learner.forecast(horizon)):
            table[slot, ahead] = quote[:3]
    return table


_kept = lru_cache(maxsize=32)(_table)


class ForecastRow(Sequence[Quote]):
    """One row of a table of forecasts, read as quotes."""

    def __init__(self, row: Floats) -> None:
        self._row = row

    def __len__(self) -> int:
        return len(self._row)

    @overload
    def __getitem__(self, index: int) -> Quote: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Quote]: ...
    def __getitem__(self, index: int | slice) -> Quote | Sequence[Quote]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        usd, on_demand, gpus = self._row[index]
        return Quote(float(usd), float(on_demand), round(float(gpus)))

    def array(self) -> Floats:
        """Return the numbers themselves: one row per slot ahead."""
        return self._row
