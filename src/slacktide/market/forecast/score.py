"""How good forecasts are: their error by horizon, and whether they beat "stays as it is".

GPUs are scored as policies see them, in whole numbers. Every forecaster is scored on the same
slots: after a warm-up, and as long as the pool has all the slots that are forecast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, shown
from slacktide.core.register import Spec
from slacktide.market.base import Pool
from slacktide.market.forecast.base import (
    GPUS,
    PRICE,
    Forecaster,
    forecast_table,
    forecasters,
    knows_the_future,
)
from slacktide.market.forecast.persistence import Persistence

DEFAULT_WARMUP_SHARE = 0.3
ALMOST_EXACT = 1e-12  # errors below this are rounding: nothing can be better than persistence then


@runtime_checkable
class Noting(Protocol):
    """A forecaster that can report where it had too little to go on, and what it did instead."""

    def notes(self, pool: Pool, horizon: int) -> tuple[str, ...]:
        """Return sentences about the table of a pool; none when there is nothing to report."""
        ...


@dataclass(frozen=True, slots=True)
class Score:
    """The errors of one forecaster; entry 0 of each tuple is for the next slot."""

    forecaster: str
    knows_the_future: bool
    price_error_usd: tuple[float, ...]  # mean absolute error of the spot price per GPU-hour
    gpus_error: tuple[float, ...]  # mean absolute error of the spot GPUs
    enough_share: tuple[float, ...]  # how often it was right about "at least half of the most GPUs"
    price_skill: tuple[float | None, ...] = ()
    """1 - error / error of persistence; None where persistence is never wrong."""
    gpus_skill: tuple[float | None, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scores:
    """Forecasters compared on the same slots; the first is persistence."""

    pool: str
    slot_hours: float
    horizon: int
    slots: int  # how many slots were forecast from
    scores: tuple[Score, ...]


def named(specs: Iterable[Spec | Forecaster]) -> dict[str, Forecaster]:
    """Make forecasters from what a user wrote; names of several of one kind include their parameters."""
    made = [forecasters.make(spec) for spec in specs]
    names = [forecasters.name_of(forecaster) for forecaster in made]
    parameters = [repr(forecaster).partition("(")[2].rpartition(")")[0] for forecaster in made]
    return {
        name if names.count(name) == 1 else f"{name} {more}": forecaster
        for name, more, forecaster in zip(names, parameters, made, strict=True)
    }


def score(
    pool: Pool,
    wanted: dict[str, Forecaster],
    *,
    horizon: int = 12,
    warmup_share: float = DEFAULT_WARMUP_SHARE,
) -> Scores:
    """Score forecasters on a pool against persistence, which is always among them.

    Raises InputError when the pool is too short for warm-up and horizon.
    """
    if horizon < 1:
        raise InputError(f"horizon must be >= 1, got {horizon}")
    if not 0 <= warmup_share < 1:
        raise InputError(f"the warm-up must be a share in [0, 1), got {warmup_share}")
    made = np.arange(int(len(pool) * warmup_share), len(pool) - horizon, dtype=np.int64)
    if not len(made):
        raise InputError(
            f"pool {shown(pool.name)}: forecasts of {horizon} slots after a warm-up of {warmup_share:.0%} "
            f"must come true within the pool, which has {len(pool)} slots; use a longer market or a "
            "lower horizon"
        )
    compared: dict[str, Forecaster] = {"persistence": Persistence()}
    compared |= {name: rival for name, rival in wanted.items() if not isinstance(rival, Persistence)}
    scores = [_errors(name, forecaster, pool, horizon, made) for name, forecaster in compared.items()]
    return Scores(pool.name, pool.slot_hours, horizon, len(made), with_skill(scores))


def overall(each: Sequence[Scores]) -> Scores:
    """Return the mean over pools, each counting once; all must have the same forecasters and horizon."""
    first = each[0]
    together = [
        Score(
            score.forecaster,
            score.knows_the_future,
            _mean(scores.scores[place].price_error_usd for scores in each),
            _mean(scores.scores[place].gpus_error for scores in each),
            _mean(scores.scores[place].enough_share for scores in each),
            notes=tuple(note for scores in each for note in scores.scores[place].notes),
        )
        for place, score in enumerate(first.scores)
    ]
    slots = sum(scores.slots for scores in each)
    return Scores("all pools", first.slot_hours, first.horizon, slots, with_skill(together))


def with_skill(scores: Sequence[Score]) -> tuple[Score, ...]:
    """Compare every score with the first."""
    base = scores[0]
    return tuple(
        replace(
            score,
            price_skill=_skill(score.price_error_usd, base.price_error_usd),
            gpus_skill=_skill(score.gpus_error, base.gpus_error),
        )
        for score in scores
    )


def _errors(name: str, forecaster: Forecaster, pool: Pool, horizon: int, made: Ints) -> Score:
    table = forecast_table(forecaster, pool, horizon)[made]
    at = made[:, None] + np.arange(1, horizon + 1)[None, :]
    gpus, true_gpus = np.rint(table[:, :, GPUS]), pool.spot_gpus[at]
    half = max(1.0, int(pool.spot_gpus.max()) / 2)
    return Score(
        name,
        knows_the_future(forecaster),
        _tuple(np.abs(table[:, :, PRICE] - pool.spot_usd_per_gpu_hour[at]).mean(axis=0)),
        _tuple(np.abs(gpus - true_gpus).mean(axis=0)),
        _tuple(((gpus >= half) == (true_gpus >= half)).mean(axis=0)),
        notes=forecaster.notes(pool, horizon) if isinstance(forecaster, Noting) else (),
    )


def _skill(errors: Sequence[float], base: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(
        None if base_error <= ALMOST_EXACT else 1.0 - error / base_error
        for error, base_error in zip(errors, base, strict=True)
    )


def _mean(rows: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return _tuple(np.mean(list(rows), axis=0))


def _tuple(numbers: Floats) -> tuple[float, ...]:
    return tuple(numbers.tolist())
