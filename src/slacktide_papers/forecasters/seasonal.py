"""A forecast from the same time of day in the last days, blended with the present."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import forecasters

BIN_HOURS = 0.5  # times of day closer than this are taken together; longer slots are taken as they are


@forecasters.register
@dataclass(frozen=True, slots=True)
class Seasonal:
    """Forecast what the last days had at the same time of day, blended with the present.

    A vote: the present and each of the last days at that time of day have weights, and the
    weighted median wins, because pools seldom offer the mean of everything and nothing. The present's
    weight halves every `half_life_hours` ahead, and the days share the rest. Use it where the day
    has a strong and steady shape; for a time of day not seen yet it is persistence.
    """

    days: int = 7  # a whole week, so that every weekday counts once
    half_life_hours: float = 6.0  # until then the present outvotes all days together

    def __post_init__(self) -> None:
        if self.days < 1:
            raise InputError(f"days must be >= 1, got {self.days}")
        if not self.half_life_hours > 0:
            raise InputError(f"half_life_hours must be > 0, got {self.half_life_hours}")

    def begin(self, slot_hours: float, hour_of_day: float) -> _Days:
        return _Days(self, slot_hours, hour_of_day)

    def notes(self, pool: Pool, horizon: int) -> tuple[str, ...]:
        """Say where there was too little to learn from."""
        if pool.hours >= 24 * self.days:
            return ()
        have = f"{pool.name}: {pool.hours / 24:.3g} days of history, not {self.days}"
        return (have + ("; the first day is persistence" if pool.hours > 24 else "; close to persistence"),)


class _Days:
    """Sums by day and time of day, the oldest day overwritten by the newest."""

    def __init__(self, how: Seasonal, slot_hours: float, hour_of_day: float) -> None:
        self._half_life = how.half_life_hours / slot_hours
        self._slot_hours, self._first_hour = slot_hours, hour_of_day
        self._bins = max(1, math.floor(24.0 / max(slot_hours, BIN_HOURS) + 1e-9))
        self._sums = np.zeros((how.days, self._bins, 2))
        self._counts = np.zeros((how.days, self._bins, 1))
        self._day = self._slots = 0
        self._quote = Quote(0.0, 0.0, 0)

    def learn(self, quote: Quote) -> None:
        day, place = self._place(self._slots)
        for past in range(max(self._day + 1, day - len(self._sums) + 1), day + 1):
            self._sums[past % len(self._sums)] = self._counts[past % len(self._sums)] = 0.0
        self._day = day
        self._sums[day % len(self._sums), place] += self._present(quote)
        self._counts[day % len(self._sums), place] += 1.0
        self._quote = quote
        self._slots += 1

    def forecast(self, horizon: int) -> Sequence[Quote]:
        now = np.broadcast_to(self._present(self._quote), (1, horizon, 2))
        places = [self._place(self._slots - 1 + ahead)[1] for ahead in range(1, horizon + 1)]
        counts = self._counts[:, places]
        days = self._sums[:, places] / np.maximum(counts, 1.0)
        present = 0.5 ** (np.arange(1, horizon + 1)[None, :, None] / self._half_life)
        votes = (1.0 - present) * (counts > 0) / np.maximum((counts > 0).sum(axis=0), 1)
        middle = _middle(np.concatenate([now, days]), np.concatenate([present, votes]))
        on_demand = self._quote.on_demand_usd_per_gpu_hour
        return [Quote(usd, on_demand, round(gpus)) for usd, gpus in middle.tolist()]

    def _place(self, slot: int) -> tuple[int, int]:
        day, hour = divmod(self._first_hour + slot * self._slot_hours + 1e-9, 24.0)
        return int(day), min(int(hour / 24.0 * self._bins), self._bins - 1)

    @staticmethod
    def _present(quote: Quote) -> Floats:
        return np.array([quote.spot_usd_per_gpu_hour, quote.spot_gpus], dtype=np.float64)


def _middle(values: Floats, weights: Floats) -> Floats:
    """Return the weighted median over the first axis."""
    order = np.argsort(values, axis=0, kind="stable")
    ranked, heavy = np.take_along_axis(values, order, 0), np.broadcast_to(weights, values.shape)
    sums = np.cumsum(np.take_along_axis(heavy, order, 0), axis=0)
    first = np.argmax(sums >= 0.5 * sums[-1], axis=0)
    return np.asarray(np.take_along_axis(ranked, first[None], 0)[0])
