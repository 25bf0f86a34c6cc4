"""As at this time of day in the last days, as far as the present does not say otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.errors import InputError
from slacktide.forecast.base import forecasters
from slacktide.market.base import Floats, Pool
from slacktide.types import Quote

BIN_HOURS = 0.5
"""Times of day closer than this are taken together; longer slots are taken as they are."""


@forecasters.register
@dataclass(frozen=True, slots=True)
class Seasonal:
    """Forecast the mean of the last days at the same time of day, blended with the present.

    The present fades with the horizon, by half in `half_life_hours`. Want it where the day has a
    strong and steady shape; where nothing is known about a time of day yet, it is persistence.
    """

    days: int = 7  # a whole week, so that every weekday counts once
    half_life_hours: float = 12.0

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
        return (have + ("; the first day is as persistence" if pool.hours > 24 else "; much as persistence"),)


class _Days:
    """Sums by day and time of day, the oldest day overwritten by the newest."""

    def __init__(self, how: Seasonal, slot_hours: float, hour_of_day: float) -> None:
        self._half_life = how.half_life_hours / slot_hours
        self._slot_hours, self._first_hour = slot_hours, hour_of_day
        self._bins = max(1, math.floor(24.0 / max(slot_hours, BIN_HOURS) + 1e-9))
        self._sums = np.zeros((how.days, self._bins, 2))
        self._counts = np.zeros((how.days, self._bins, 1))
        self._day = self._slots = 0
        self._most = np.zeros(2)
        self._quote = Quote(0.0, 0.0, 0)

    def learn(self, quote: Quote) -> None:
        day, place = self._place(self._slots)
        for past in range(max(self._day + 1, day - len(self._sums) + 1), day + 1):
            self._sums[past % len(self._sums)] = self._counts[past % len(self._sums)] = 0.0
        self._day = day
        now = self._present(quote)
        self._sums[day % len(self._sums), place] += now
        self._counts[day % len(self._sums), place] += 1.0
        self._most = np.maximum(self._most, now)
        self._quote = quote
        self._slots += 1

    def forecast(self, horizon: int) -> Sequence[Quote]:
        now = self._present(self._quote)
        places = [self._place(self._slots - 1 + ahead)[1] for ahead in range(1, horizon + 1)]
        counts = self._counts[:, places].sum(axis=0)
        usual = np.where(counts > 0, self._sums[:, places].sum(axis=0) / np.maximum(counts, 1.0), now)
        fading = 0.5 ** (np.arange(1, horizon + 1)[:, None] / self._half_life)
        blend = np.clip(usual + fading * (now - usual), 0.0, self._most)
        on_demand = self._quote.on_demand_usd_per_gpu_hour
        return [Quote(usd, on_demand, round(gpus)) for usd, gpus in blend.tolist()]

    def _place(self, slot: int) -> tuple[int, int]:
        day, hour = divmod(self._first_hour + slot * self._slot_hours + 1e-9, 24.0)
        return int(day), min(int(hour / 24.0 * self._bins), self._bins - 1)

    @staticmethod
    def _present(quote: Quote) -> Floats:
        return np.array([quote.spot_usd_per_gpu_hour, quote.spot_gpus], dtype=np.float64)
