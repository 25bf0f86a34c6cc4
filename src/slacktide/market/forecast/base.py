"""The contract and the register of forecasters, and the forecasts of a whole run.

The forecaster belongs to the run, not to the policy: a hundred policies share one table of
forecasts, and the same policy can be tried with a perfect, a noisy or no forecast.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from slacktide.core.arrays import Floats, Ints, LazySequence
from slacktide.core.quotes import Quote
from slacktide.core.register import Register
from slacktide.market.base import LruCache, Pool
from slacktide.market.tape import Mark, Past, Tape

PRICE, ON_DEMAND, GPUS = range(3)
"""Columns of a table of forecasts."""


class Learner(Protocol):
    """A forecaster at work on one pool: gets every quote in order, and can forecast after any of them."""

    def learn(self, quote: Quote) -> None:
        """Learn from the quote of the next slot."""
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

    One that *needs* the whole pool declares `knows_the_future = True`: it is for experiments, and the only
    kind that is given the pool when a policy asks for a forecast.
    """

    def table(self, pool: Pool, horizon: int) -> Floats:
        """Return what `forecast_table` returns."""
        ...


forecasters: Register[Forecaster] = Register(
    "forecaster",
    packages=("slacktide.market.forecast",),
    entry_points="slacktide.forecasters",
    papers=("arima", "noisy-truth", "seasonal"),
)
"""All known forecasters; `@forecasters.register` adds one."""


def knows_the_future(forecaster: Forecaster) -> bool:
    """Whether a forecaster says of itself that it knows what will come: only for experiments."""
    return bool(getattr(forecaster, "knows_the_future", False))


def hour_of_day(series: Pool | Past, slot: int = 0) -> float:
    """Return the time of day at which a slot begins, in hours UTC."""
    return (series.first_hour_of_day + slot * series.slot_hours) % 24.0


def clock(hour: float, slots: int, slot_hours: float) -> Floats:
    """Return the time of day of each slot, in hours UTC, if the first one begins at this hour."""
    return np.mod(hour + np.arange(slots, dtype=np.float64) * slot_hours, 24.0)


@lru_cache(maxsize=32)
def forecast_table(forecaster: Forecaster, pool: Pool, horizon: int) -> Floats:
    """Return the forecasts made in every slot of a pool, that slot's quote known.

    The entry [slot, ahead - 1] is (spot USD, on-demand USD, spot GPUs) forecast in `slot` for
    `slot + ahead`. Computed once and shared by all policies of a run, because forecasters that are
    equal are one key.
    """
    if isinstance(forecaster, TableForecaster):
        return forecaster.table(pool, horizon)
    learner = forecaster.begin(pool.slot_hours, hour_of_day(pool))
    table = np.empty((len(pool), horizon, 3))
    for slot in range(len(pool)):
        learner.learn(pool.quote(slot))
        for ahead, quote in enumerate(learner.forecast(horizon)):
            table[slot, ahead] = quote[:3]
    return table


class ForecastRow(LazySequence[Quote]):
    """One row of a table of forecasts, read as quotes."""

    def __init__(self, row: Floats) -> None:
        self._row = row

    def __len__(self) -> int:
        return len(self._row)

    def item(self, index: int) -> Quote:
        usd, on_demand, gpus = self._row[index]
        return Quote(float(usd), float(on_demand), round(float(gpus)))


PIECE_SLOTS = 4096
"""Slots that are learned at once, so that a long past does not take all memory."""
MOST_KEPT = 64
"""Learners kept from the beginnings of runs, so that many starts on one pool learn its past once."""

_Begun: TypeAlias = tuple[Forecaster, int, int]
"""A forecaster, the series it has learned from, and how many slots of it."""
_kept: LruCache[_Begun, Learner] = LruCache(MOST_KEPT)


class OnTape:
    """Forecasts that are made from a tape alone."""

    def __init__(self, forecaster: Forecaster, tape: Tape, horizon: int) -> None:
        self.tape = tape
        self._forecaster, self._horizon = forecaster, horizon
        self._learner: Learner | None = None
        self._learned: tuple[int, int] = (tape.key, 0)
        """The series that was learned from, and how many slots of it."""
        self._said: tuple[Mark, Sequence[Quote]] | None = None

    def at(self, slots: int) -> Sequence[Quote]:
        past = self.tape.past(slots)
        mark = past.mark(len(past))
        if self._said is None or self._said[0] != mark:
            self._said = mark, self._forecast(past)
        return self._said[1]

    def _forecast(self, past: Past) -> Sequence[Quote]:
        learner = self._up_to(past)
        if len(past) > past.came:  # held quotes may still be replaced, so they are not learned for good
            learner = copy.deepcopy(learner)
            _learn(learner, past, past.came, len(past))
        return learner.forecast(self._horizon)

    def _up_to(self, past: Past) -> Learner:
        """Return the learner after all quotes that have come; a new one if it learned from another series."""
        key, learned = self._learned
        if self._learner is None or key != past.key or learned > past.came:
            begun = (self._forecaster, past.key, past.came)  # runs that begin alike share what they learned
            self._learner = copy.deepcopy(_kept.get(begun, lambda: _begin(self._forecaster, past)))
        else:
            _learn(self._learner, past, learned, past.came)
        self._learned = past.key, past.came
        return self._learner


class TrueForecasts:
    """Forecasts of a forecaster that knows the future: for experiments, and made from a whole pool."""

    def __init__(self, forecaster: Forecaster, pool: Pool, tape: Tape, horizon: int) -> None:
        self.tape = tape
        self._forecaster, self._pool, self._horizon = forecaster, pool, horizon

    def at(self, slots: int) -> Sequence[Quote]:
        return ForecastRow(forecast_table(self._forecaster, self._pool, self._horizon)[slots - 1])


def _learn(learner: Learner, past: Past, first: int, last: int) -> None:
    if not isinstance(learner, BulkLearner):
        for slot in range(first, last):
            learner.learn(past[slot])
        return
    for begin in range(first, last, PIECE_SLOTS):
        rows = slice(begin, min(begin + PIECE_SLOTS, last))
        learner.learn_many(
            past.spot_usd_per_gpu_hour[rows], past.on_demand_usd_per_gpu_hour[rows], past.spot_gpus[rows]
        )


def _begin(forecaster: Forecaster, past: Past) -> Learner:
    """Make a learner, from a copy of the kept one that has learned most of this past, if there is any."""
    known = [begun for begun in _kept if begun[:2] == (forecaster, past.key) and begun[2] <= past.came]
    begun = max(known, key=lambda kept: kept[2], default=(forecaster, past.key, 0))
    learner = forecaster.begin(past.slot_hours, past.first_hour_of_day)
    if known:
        learner = copy.deepcopy(_kept.get(begun, lambda: learner))
    _learn(learner, past, begun[2], past.came)
    return learner
