"""The truth with noise: not a forecast, but a way to measure what a forecast of some quality is worth."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, shown
from slacktide.market.base import Pool
from slacktide.market.forecast.base import GPUS, PRICE, Learner, forecasters
from slacktide.market.forecast.persistence import Persistence

TAIL = 2.0  # degrees of freedom of heavy-tailed noise (Student's t): its mean exists, its variance does not
TAIL_MEAN = 2.0**0.5  # mean size of such noise before it is brought to that of uniform noise


@forecasters.register
@dataclass(frozen=True, slots=True)
class NoisyTruth:
    """Forecast the truth with noise, for experiments only: it knows the future.

    Level 0 is a perfect forecast. Uniform noise lies within ± `level`; heavy-tailed noise is of
    the same mean size, mostly smaller and now and then far larger. It is a share of the true
    value (`magnitude`) or of the pool's mean (`fixed`). Every forecast of a slot has noise of its
    own, however far ahead it is made. Without the whole pool at hand (live) it is persistence.
    """

    level: float = 0.2
    noise: Literal["uniform", "heavy-tailed"] = "uniform"
    scale: Literal["magnitude", "fixed"] = "magnitude"
    seed: int = 0

    knows_the_future: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.level < np.inf:
            raise InputError(f"level must be >= 0, got {self.level}")
        if self.noise not in ("uniform", "heavy-tailed"):
            raise InputError(f"noise must be uniform or heavy-tailed, got {shown(self.noise)}")
        if self.scale not in ("magnitude", "fixed"):
            raise InputError(f"scale must be magnitude or fixed, got {shown(self.scale)}")

    def begin(self, slot_hours: float, hour_of_day: float) -> Learner:
        # Without the future at hand nothing is left of the truth but the last quote.
        return Persistence().begin(slot_hours, hour_of_day)

    def table(self, pool: Pool, horizon: int) -> Floats:
        truth = _truth(pool, horizon)
        # Pools of one market must have noise of their own.
        rng = np.random.default_rng([self.seed, zlib.crc32(pool.name.encode())])
        for column in (PRICE, GPUS):
            exact = truth[:, :, column]
            size = exact if self.scale == "magnitude" else exact[:, :1].mean()
            noisy = exact + self.level * size * self._draw(rng, exact.shape)
            truth[:, :, column] = np.clip(noisy, 0.0, exact.max() if column == GPUS else None)
        return truth

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        if self.noise == "uniform":
            return rng.uniform(-1.0, 1.0, shape)
        return rng.standard_t(TAIL, shape) * (0.5 / TAIL_MEAN)


def _truth(pool: Pool, horizon: int) -> Floats:
    """Return the true future; after the end of the record there is no spot, at the last prices."""
    slots = np.arange(len(pool))[:, None] + np.arange(1, horizon + 1)[None, :]
    at = np.minimum(slots, len(pool) - 1)
    gpus = np.where(slots < len(pool), pool.spot_gpus[at], 0)
    columns = (pool.spot_usd_per_gpu_hour[at], pool.on_demand_usd_per_gpu_hour[at], gpus)
    return np.stack(columns, axis=2).astype(np.float64)
