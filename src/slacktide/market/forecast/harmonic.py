"""A regression on the recent past and the time of day, learned while it runs.

Recursive least squares for all horizons at once. A series is scaled by the most seen so far. In every slot
the same features serve every horizon, so one gain is computed per slot, kept until the slots it forecast have
come, and then corrects the coefficients of each horizon; that is exactly least squares with forgetting for
each of them, at the cost of one. All coefficients begin at zero, which means "stays as it is": without
history this is persistence, and only data move it away from that.

Plain loops throughout, so that plain and compiled code round alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import GPUS, ON_DEMAND, PRICE, forecasters, hour_of_day

BELIEVE_GPUS = 1.1
"""The regression is used for availability unless its recent error was clearly above persistence's."""
BELIEVE_PRICE = 0.98
"""Prices rarely move, and then a mean is always a little wrong: it is used only if it was better lately."""
MEAN_HOURS = (2.0, 8.0, 24.0)  # time constants of the running means that the present is compared with
PRIOR = 0.3
"""How freely coefficients leave zero: their first covariance. Results hardly change from 0.1 to 1."""
DOUBT = 0.05
"""A level is forecast to change only if its chance is this far beyond 0.5: closer to that, little is gained,
and chances are only estimates."""
LOSS_DAYS = 14.0  # how long past errors count in the decision whether the regression is believed

MOST, LAST, SLOTS = range(3)
"""Indexes in `SeriesMemory.now`: the most seen, the last value as a share of it, slots learned."""


@forecasters.register
@dataclass(frozen=True, slots=True)
class Harmonic:
    """Forecast by a regression on the recent past and the time of day, learned online.

    The usual choice: fast, good from a few days of history on, and persistence before that, since
    every coefficient begins at zero. Availability is forecast as its median (the chance of
    reaching each of several levels is regressed), because a market that offers all or nothing is
    never half available; the price as its mean. A horizon uses persistence while that has had the
    smaller recent error. Regression with forgetting as in any textbook on adaptive filters
    (recursive least squares); the median by levels is distribution regression.
    """

    memory_days: float = 14.0  # how long an observation counts: two weeks hold every weekday twice
    harmonics: int = 2  # waves a day: one for the dip of the afternoon, one for its shape
    levels: int = 8  # steps of availability that are distinguished
    reach_slots: int = 48  # horizons with coefficients of their own; later slots are forecast like the last

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
        # Copies: read-only arrays are another type to the compiler, which would compile all a second time.
        series = pool.spot_usd_per_gpu_hour.copy(), pool.spot_gpus.astype(np.float64)
        for column, amounts, how in zip((PRICE, GPUS), series, self.models(pool.slot_hours), strict=True):
            filled = np.empty((len(pool), horizon))
            compiled(fill)(how, blank(reach, self.harmonics, how.levels), amounts, angles, filled)
            out[:, :, column] = filled
        return out

    def models(self, slot_hours: float) -> tuple[SeriesShape, SeriesShape]:
        """Return the constants of the two regressions: for the price, for availability."""
        weights = np.array([-math.expm1(-slot_hours / hours) for hours in MEAN_HOURS])
        forget, forget_loss = (math.exp(-slot_hours / 24.0 / days) for days in (self.memory_days, LOSS_DAYS))
        return (
            SeriesShape(0, forget, forget_loss, BELIEVE_PRICE, PRIOR, weights),
            SeriesShape(self.levels, forget, forget_loss, BELIEVE_GPUS, PRIOR, weights),
        )

    def notes(self, pool: Pool, horizon: int) -> tuple[str, ...]:
        """Say where there was too little to learn from."""
        if pool.hours >= 48:
            return ()
        return (f"{pool.name}: {pool.hours:.3g} h is too short to learn from; close to persistence",)


class _Online:
    """Both regressions at work on one pool."""

    def __init__(self, how: Harmonic, slot_hours: float, hour_of_day: float) -> None:
        self._how = how
        self._slot_hours, self._first_hour = slot_hours, hour_of_day
        self._slots = 0
        self._models = how.models(slot_hours)
        self._memories = tuple(blank(how.reach_slots, how.harmonics, model.levels) for model in self._models)
        self._ahead = np.zeros((2, how.reach_slots))
        self._on_demand_usd = 0.0

    def learn(self, quote: Quote) -> None:
        self.learn_many(*(np.array([number]) for number in quote[:3]))

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


class SeriesShape(NamedTuple):
    """What does not change while a series is learned."""

    levels: int  # levels whose probability is regressed, to forecast the median; 0 forecasts the mean
    forget: float  # what an observation weighs after one more slot
    forget_loss: float
    believe: float  # the regression counts while its past error is at most this multiple of persistence's
    prior: float
    mean_weights: Floats  # weight of the newest value in each running mean


class SeriesMemory(NamedTuple):
    """All that is kept of a series; its size does not depend on the length of the series."""

    now: Floats
    means: Floats
    covariance: Floats
    coefficients: Floats  # by horizon, level and feature
    features: Floats  # of the latest slots, in a ring; so are the three below
    gains: Floats
    values: Floats
    guesses: Floats
    losses: Floats  # by horizon: discounted error of persistence and of the regression


def blank(horizon: int, harmonics: int, levels: int) -> SeriesMemory:
    """Return the memory of a series before its first value."""
    features = 3 + len(MEAN_HOURS) + 2 * harmonics
    ring = horizon + 1
    return SeriesMemory(
        now=np.zeros(3),
        means=np.zeros(len(MEAN_HOURS)),
        covariance=np.eye(features) * PRIOR,
        coefficients=np.zeros((horizon, max(levels, 1), features)),
        features=np.zeros((ring, features)),
        gains=np.zeros((ring, features)),
        values=np.zeros(ring),
        guesses=np.zeros((ring, horizon)),
        losses=np.zeros((horizon, 2)),
    )


def waves(hours: Sequence[float], harmonics: int) -> Floats:
    """Return sine and cosine of the time of day and of its multiples, a row per hour given."""
    # One sine at a time: NumPy's is not the same for one number as for many, in the last digit.
    angles = [2.0 * math.pi * hour / 24.0 for hour in hours]
    rows = [
        [wave(number * angle) for number in range(1, harmonics + 1) for wave in (math.sin, math.cos)]
        for angle in angles
    ]
    return np.array(rows, dtype=np.float64).reshape(len(angles), 2 * harmonics)


@compilable
def mark(value: float, level: int, levels: int) -> float:
    """Return what is regressed: whether the value reaches a level, or the value itself."""
    if levels == 0:
        return value
    return 1.0 if value > (level + 0.5) / levels else 0.0


@compilable
def correct(fixed: SeriesShape, memory: SeriesMemory, value: float) -> None:
    """Let a value correct the coefficients of every horizon that had forecast it, and update their errors."""
    ring, slots = len(memory.values), int(memory.now[SLOTS])
    horizons, marks, features = memory.coefficients.shape
    for ahead in range(1, min(horizons, slots) + 1):
        then = (slots - ahead) % ring
        losses = memory.losses[ahead - 1]
        losses[0] = losses[0] * fixed.forget_loss + abs(value - memory.values[then])
        losses[1] = losses[1] * fixed.forget_loss + abs(value - memory.guesses[then, ahead - 1])
        for level in range(marks):
            row = memory.coefficients[ahead - 1, level]
            error = mark(value, level, fixed.levels) - mark(memory.values[then], level, fixed.levels)
            for feature in range(features):
                error -= row[feature] * memory.features[then, feature]
            for feature in range(features):
                row[feature] += memory.gains[then, feature] * error


@compilable
def observe(fixed: SeriesShape, memory: SeriesMemory, value: float, wave: Floats) -> None:
    """Store the features of this slot: the level, its last step, its distance from its means, the hour."""
    before = value if memory.now[SLOTS] == 0 else memory.now[LAST]
    row = memory.features[int(memory.now[SLOTS]) % len(memory.values)]
    row[0], row[1], row[2] = 1.0, value, value - before
    means = len(memory.means)
    for one in range(means):
        if memory.now[SLOTS] == 0:
            memory.means[one] = value
        memory.means[one] += fixed.mean_weights[one] * (value - memory.means[one])
        row[3 + one] = value - memory.means[one]
    for one in range(len(wave)):
        row[3 + means + one] = wave[one]


@compilable
def gain(fixed: SeriesShape, memory: SeriesMemory) -> None:
    """Compute the gain of this slot's features, and reduce the covariance by what they will teach."""
    here = int(memory.now[SLOTS]) % len(memory.values)
    row, out, covariance = memory.features[here], memory.gains[here], memory.covariance
    size = len(row)
    scale = fixed.forget
    for one in range(size):
        out[one] = 0.0
        for other in range(size):
            out[one] += covariance[one, other] * row[other]
        scale += row[one] * out[one]
    trace = 0.0
    for one in range(size):
        trace += covariance[one, one] - out[one] * out[one] / scale
    # No forgetting while the market is quiet: the covariance of what it does not show would grow forever.
    keep = fixed.forget if trace <= fixed.forget * fixed.prior * size else 1.0
    for one in range(size):
        for other in range(one, size):
            left = (covariance[one, other] - out[one] * out[other] / scale) / keep
            covariance[one, other] = left
            covariance[other, one] = left
    for one in range(size):
        out[one] /= scale


@compilable
def guess(fixed: SeriesShape, memory: SeriesMemory, value: float) -> None:
    """Forecast every horizon from this slot: the median by levels, or the mean."""
    here = int(memory.now[SLOTS]) % len(memory.values)
    row = memory.features[here]
    horizons, marks, features = memory.coefficients.shape
    for ahead in range(horizons):
        reached, present, total = 0, 0, value
        for level in range(marks):
            now = mark(value, level, fixed.levels)
            total = now
            for feature in range(features):
                total += memory.coefficients[ahead, level, feature] * row[feature]
            reached += 1 if total > 0.5 + (DOUBT if now < 0.5 else -DOUBT) else 0
            present += 1 if now > 0.5 else 0
        if fixed.levels == 0:
            memory.guesses[here, ahead] = min(max(total, 0.0), 1.0)
        elif reached == present:
            memory.guesses[here, ahead] = value
        else:
            whole = math.floor(reached * memory.now[MOST] / fixed.levels + 0.5)
            memory.guesses[here, ahead] = whole / memory.now[MOST]


@compilable
def step(fixed: SeriesShape, memory: SeriesMemory, amount: float, wave: Floats, out: Floats) -> None:
    """Learn the amount of the next slot and write what is forecast for the slots after it."""
    memory.now[MOST] = max(memory.now[MOST], amount)
    value = amount / memory.now[MOST] if memory.now[MOST] > 0.0 else 0.0
    correct(fixed, memory, value)
    observe(fixed, memory, value, wave)
    gain(fixed, memory)
    guess(fixed, memory, value)
    here = int(memory.now[SLOTS]) % len(memory.values)
    memory.values[here] = value
    memory.now[LAST] = value
    memory.now[SLOTS] += 1.0
    last = len(memory.losses) - 1
    for ahead in range(len(out)):
        losses = memory.losses[min(ahead, last)]
        believed = losses[1] <= fixed.believe * losses[0]
        share = memory.guesses[here, min(ahead, last)]
        out[ahead] = share * memory.now[MOST] if believed else amount


@compilable
def fill(fixed: SeriesShape, memory: SeriesMemory, amounts: Floats, waves: Floats, table: Floats) -> None:
    """Do `step` for every slot of a series; one row of the table each."""
    for slot in range(len(amounts)):
        step(fixed, memory, amounts[slot], waves[slot], table[slot])
