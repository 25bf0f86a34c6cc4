"""A run's forecaster at work on a tape: it learns what has been appended when a forecast is requested."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from slacktide.core.lru_cache import LruCache
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import BulkLearner, Forecaster, ForecastRow, Learner, forecast_table
from slacktide.market.tape import Mark, Past, Tape

PIECE_SLOTS = 4096
"""Slots that are learned at once, so that a long past does not take all memory."""
MOST_KEPT = 64
"""Learners kept from the beginnings of runs, so that many starts on one pool learn its past once."""

_Begun: TypeAlias = tuple[Forecaster, int, int]
"""A forecaster, the series it has learned from, and how many slots of it."""
_kept: LruCache[_Begun, Learner] = LruCache(MOST_KEPT)


class Foresight(Protocol):
    """The forecasts of one pool."""

    def at(self, slots: int) -> Sequence[Quote]:
        """Return what was forecast when this many slots had begun, the next slot first."""
        ...


class OnTape:
    """Forecasts of one who has seen nothing but a tape."""

    def __init__(self, forecaster: Forecaster, tape: Tape, horizon: int) -> None:
        self._forecaster, self._tape, self._horizon = forecaster, tape, horizon
        self._learner: Learner | None = None
        self._learned: tuple[int, int] = (tape.key, 0)
        """The series that was learned from, and how many slots of it."""
        self._said: tuple[Mark, Sequence[Quote]] | None = None

    def at(self, slots: int) -> Sequence[Quote]:
        past = self._tape.past(slots)
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
        """Return the learner with all that has come learned; begin again where it has seen something else."""
        key, learned = self._learned
        if self._learner is None or key != past.key or learned > past.came:
            self._learner = copy.deepcopy(_beginner(self._forecaster, past))
        else:
            _learn(self._learner, past, learned, past.came)
        self._learned = past.key, past.came
        return self._learner


class TrueForecasts:
    """Forecasts of the clairvoyant: for experiments, and the only ones made from a whole pool."""

    def __init__(self, forecaster: Forecaster, pool: Pool, horizon: int) -> None:
        self._forecaster, self._pool, self._horizon = forecaster, pool, horizon

    def at(self, slots: int) -> Sequence[Quote]:
        return ForecastRow(forecast_table(self._forecaster, self._pool, self._horizon)[slots - 1])


def _learn(learner: Learner, past: Past, first: int, last: int) -> None:
    """Let a learner take in the slots from `first` up to, but without, `last`."""
    if not isinstance(learner, BulkLearner):
        for slot in range(first, last):
            learner.learn(past[slot])
        return
    for begin in range(first, last, PIECE_SLOTS):
        rows = slice(begin, min(begin + PIECE_SLOTS, last))
        learner.learn_many(
            past.spot_usd_per_gpu_hour[rows], past.on_demand_usd_per_gpu_hour[rows], past.spot_gpus[rows]
        )


def _beginner(forecaster: Forecaster, past: Past) -> Learner:
    """Return a learner that has seen what has come of this past; runs that begin alike share it."""
    return _kept.get((forecaster, past.key, past.came), lambda: _begin(forecaster, past))


def _begin(forecaster: Forecaster, past: Past) -> Learner:
    """Make a learner, from the kept one that has seen most of this past where there is any."""
    known = [begun for begun in _kept if begun[:2] == (forecaster, past.key) and begun[2] <= past.came]
    begun = max(known, key=lambda one: one[2], default=(forecaster, past.key, 0))
    learner = forecaster.begin(past.slot_hours, past.first_hour_of_day)
    if known:
        learner = copy.deepcopy(_kept.get(begun, lambda: learner))
    _learn(learner, past, begun[2], past.came)
    return learner
