"""A regression on the recent past and the time of day, learned while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import GPUS, ON_DEMAND, PRICE, forecasters, hour_of_day
from slacktide.market.forecast.regression import SeriesShape, blank, fill, fixed, step, waves

BELIEVE_GPUS = 1.1
"""Availability by the regression is used unless it was clearly worse than persistence of late."""
BELIEVE_PRICE = 0.98
"""Prices mostly stand still, and a mean is then always a little wrong: used only where it was better."""


@forecasters.register
@dataclass(frozen=True, slots=True)
class Harmonic:
    """Forecast by a regression on the recent past and the time of day, learned online.

    The usual choice: fast, good from a few days of history on, and persistence before that, since
    every coefficient begins at nought. Availability is forecast as its median (the chance of
    reaching each of several levels is regressed), because a market that offers all or nothing is
    never half there; the price as its mean. Each horizon is dropped for persistence while
    persistence has been the better one of late. Regression with forgetting as in any textbook on
    adaptive filters (recursive least squares); the median by levels is distribution regression.
    """

    memory_days: float = 14.0  # how long an observation counts: two weeks hold every weekday twice
    harmonics: int = 2  # waves a day: one for the dip of the afternoon, one for its shape
    levels: int = 8  # steps of availability that are distinguished
    reach_slots: int = 48  # horizons with coefficients of their own; later slots are as the last of them

    def __post_init__(self) -> None:
        if not self.memory_days > 0:
            raise InputError(f"memory_days must be > 0, got {self.memory_days}")
        if self.harmonics < 0:
            raise InputError(f"harmonics must be >= 0, got {self.harmonics}")
        if min(self.levels, self.reach_slots) < 1:
            raise InputError(f"levels and reach_slots must be >= 1, got {self.levels} and {self.reach_slots}")

    def begin(self, slot_hours: float, hour_of_day: float) -> _Online:
        return _Online(self, slot_hours, hour_of_day)

    def table(self, pool: Pool, horizon: int) -> Floats:
        out = np.empty((len(pool), horizon, 3))
        out[:, :, ON_DEMAND] = pool.on_demand_usd_per_gpu_hour[:, None]
        first = hour_of_day(pool)
        angles = waves([first + slot * pool.slot_hours for slot in range(len(pool))], self.harmonics)
        reach = max(1, min(horizon, self.reach_slots))
        for column, amounts, how in zip(
            (PRICE, GPUS), _series(pool), self.models(pool.slot_hours), strict=True
        ):
            filled = np.empty((len(pool), horizon))
            compiled(fill)(how, blank(reach, self.harmonics, how.levels), amounts, angles, filled)
            out[:, :, column] = filled
        return out

    def models(self, slot_hours: float) -> tuple[SeriesShape, SeriesShape]:
        """Return the constants of the two regressions: for the price, for availability."""
        days = self.memory_days
        return (
            fixed(slot_hours, levels=0, memory_days=days, believe=BELIEVE_PRICE),
            fixed(slot_hours, levels=self.levels, memory_days=days, believe=BELIEVE_GPUS),
        )

    def notes(self, pool: Pool, horizon: int) -> tuple[str, ...]:
        """Say where there was too little to learn from."""
        if pool.hours >= 48:
            return ()
        return (f"{pool.name}: {pool.hours:.3g} h is too short to learn from; close to persistence",)


def _series(pool: Pool) -> tuple[Floats, Floats]:
    # Copies: read-only arrays are another type to the compiler, which would compile all a second time.
    return pool.spot_usd_per_gpu_hour.copy(), pool.spot_gpus.astype(np.float64)


class _Online:
    """Both regressions at work on one pool."""

    def __init__(self, how: Harmonic, slot_hours: float, hour_of_day: float) -> None:
        self._how = how
        self._slot_hours, self._first_hour = slot_hours, hour_of_day
        self._slots = 0
        self._models = how.models(slot_hours)
        self._memories = tuple(blank(how.reach_slots, how.harmonics, one.levels) for one in self._models)
        self._ahead = np.zeros((2, how.reach_slots))
        self._on_demand_usd = 0.0

    def learn(self, quote: Quote) -> None:
        wave = waves([self._first_hour + self._slots * self._slot_hours], self._how.harmonics)[0]
        amounts = (float(quote.spot_usd_per_gpu_hour), float(quote.spot_gpus))
        for model, memory, amount, out in zip(
            self._models, self._memories, amounts, self._ahead, strict=True
        ):
            compiled(step)(model, memory, amount, wave, out)
        self._on_demand_usd = quote.on_demand_usd_per_gpu_hour
        self._slots += 1

    def learn_many(self, spot_usd: Floats, on_demand_usd: Floats, spot_gpus: Ints) -> None:
        slots = range(self._slots, self._slots + len(spot_gpus))
        if not slots:
            return
        angles = waves([self._first_hour + slot * self._slot_hours for slot in slots], self._how.harmonics)
        amounts = (np.array(spot_usd), spot_gpus.astype(np.float64))
        for model, memory, series, out in zip(
            self._models, self._memories, amounts, self._ahead, strict=True
        ):
            filled = np.empty((len(slots), self._how.reach_slots))
            compiled(fill)(model, memory, series, angles, filled)
            out[:] = filled[-1]
        self._on_demand_usd = float(on_demand_usd[-1])
        self._slots = slots.stop

    def forecast(self, horizon: int) -> Sequence[Quote]:
        last = self._how.reach_slots - 1
        prices, gpus = self._ahead
        return [
            Quote(float(prices[at]), self._on_demand_usd, round(float(gpus[at])))
            for at in (min(ahead, last) for ahead in range(horizon))
        ]
