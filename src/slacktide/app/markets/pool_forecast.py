"""What a pool will probably offer in the next hours, by the model that plans draw their futures from.

It is drawn many times, and bands say where most of the futures lie. It comes with how the same model did
lately: from moments that are past by now it is drawn again, knowing only what was known then, and compared
with what came true and with "stays as it is".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slacktide.app.markets.market import MarketSpec
from slacktide.app.markets.market_now import journal_market
from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.types import Job
from slacktide.engine.job.journal_market import standing
from slacktide.market.base import Market
from slacktide.simulation.plan.futures import scenarios
from slacktide.simulation.plan.plan_start import PlanStart

MOST_HOURS = 7 * 24
MOST_GPUS = 64
"""More are counted as this many: hardly a job uses them, and every number is a state of the model."""
FUTURES, CHECKED_FUTURES = 100, 40
MOMENTS = 12  # past moments from which the model is drawn again
CHECKED_SHARE = 0.5
"""They lie in this share of the past, the newest: before it the model would have known too little."""
CHECKED_HOURS = (1.0, 6.0, 24.0)
ALMOST_EXACT = 1e-12  # where "stays as it is" errs less than this, nothing can be better


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRequest:
    """Which pool, as of which hour of the market's clock, and how far ahead."""

    now_hours: float
    pool: str
    hours: float = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Percentiles over futures, slot by slot; entry 0 is the present slot, which is known."""

    p10: tuple[float, ...]
    p50: tuple[float, ...]
    p90: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastCheck:
    """How the model did from past moments; lists go by `hours` ahead."""

    moments: int
    hours: tuple[float, ...]
    price_skill: tuple[float | None, ...]
    """1 - error of the median / error of "stays as it is"; None where that is never wrong."""
    gpus_skill: tuple[float | None, ...]
    price_inside_share: float
    """How often what came true lay between p10 and p90, the edges included, over all slots ahead."""
    gpus_inside_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolForecast:
    """What a pool will probably offer."""

    pool: str
    slot_hours: float
    futures: int
    most_gpus: int  # spot GPUs are counted up to this many
    spot_usd_per_gpu_hour: Bands
    spot_gpus: Bands
    spot_share: tuple[float, ...]  # in which share of the futures there is any spot at all
    check: ForecastCheck | None  # none where the past is too short


def forecast_pool(journal: Path, usual: MarketSpec, request: ForecastRequest) -> PoolForecast | None:
    """Forecast a pool of the journal's market; None before the first job, when no clock runs.

    Raises InputError for a pool that there is not, and for a time that is too long.
    """
    if not 0.0 < request.hours <= MOST_HOURS:
        raise InputError(f"hours must be > 0 and <= {MOST_HOURS:g}, got {request.hours:g}")
    market, site = journal_market(journal, usual)
    pool = market.pool(request.pool)
    if site is None:
        return None
    slot = min(standing(site, pool, request.now_hours).slot, len(pool) - 1)
    return None if slot < 1 else forecast(market, pool.name, slot, request.hours)


def forecast(market: Market, pool: str, slot: int, hours: float) -> PoolForecast:
    """Forecast a pool from a slot on; nothing after it is looked at."""
    begin = PlanStart.at(market, pool, slot)
    usd, gpus = _futures(begin, hours, FUTURES)
    return PoolForecast(
        pool=pool,
        slot_hours=begin.place.slot_hours,
        futures=FUTURES,
        most_gpus=_most_gpus(begin),
        spot_usd_per_gpu_hour=_bands(usd),
        spot_gpus=_bands(gpus),
        spot_share=tuple((gpus > 0).mean(axis=0).tolist()),
        check=_check(begin, hours),
    )


def _most_gpus(begin: PlanStart) -> int:
    return min(max(int(begin.place.spot_gpus.max()), 1), MOST_GPUS)


def _futures(begin: PlanStart, hours: float, count: int) -> tuple[Floats, Floats]:
    """Return prices and spot GPUs of each drawn future, slot by slot from the present one on."""
    most, until = _most_gpus(begin), hours + begin.place.slot_hours  # the present slot comes on top
    any_job = Job(work_gpu_hours=1.0, widths=tuple(range(1, most + 1)), deadline_hours=until)
    drawn, first = scenarios(any_job, begin.place, begin.neighbours, paths=count)
    usd = np.array([one.spot_usd_per_gpu_hour[first:] for one in drawn])
    return usd, np.minimum(np.array([one.spot_gpus[first:] for one in drawn], dtype=np.float64), most)


def _bands(futures: Floats) -> Bands:
    low, middle, high = np.percentile(futures, (10, 50, 90), axis=0, method="inverted_cdf")
    return Bands(p10=tuple(low.tolist()), p50=tuple(middle.tolist()), p90=tuple(high.tolist()))


def _check(begin: PlanStart, hours: float) -> ForecastCheck | None:
    """Forecast from past moments, and compare with what came true."""
    pool, ahead = begin.place, math.ceil(hours / begin.place.slot_hours)
    first, last = math.ceil(len(pool) * (1.0 - CHECKED_SHARE)), len(pool) - 1 - ahead
    if last - first < MOMENTS:
        return None
    slots = np.linspace(first, last, MOMENTS).astype(int).tolist()
    tried = [_tried(begin, slot, hours) for slot in slots]
    shown = [one for one in CHECKED_HOURS if one <= hours]
    places = [max(1, round(one / pool.slot_hours)) for one in shown]
    price, gpus = ([one[kind] for one in tried] for kind in range(2))
    return ForecastCheck(
        moments=MOMENTS,
        hours=tuple(shown),
        price_skill=tuple(_skill(price, place) for place in places),
        gpus_skill=tuple(_skill(gpus, place) for place in places),
        price_inside_share=_inside_share(price),
        gpus_inside_share=_inside_share(gpus),
    )


Tried = tuple[Floats, Bands]
"""What came true from a moment on, its own slot first, and what was forecast then."""


def _tried(begin: PlanStart, slot: int, hours: float) -> tuple[Tried, Tried]:
    then = PlanStart.at(begin.past, begin.pool, slot)
    usd, gpus = _futures(then, hours, CHECKED_FUTURES)
    end, most = slot + usd.shape[1], _most_gpus(then)
    true_usd = begin.place.spot_usd_per_gpu_hour[slot:end]
    true_gpus = np.minimum(begin.place.spot_gpus[slot:end], most).astype(np.float64)
    return (true_usd, _bands(usd)), (true_gpus, _bands(gpus))


def _skill(tried: Sequence[Tried], place: int) -> float | None:
    """Return how much smaller the error of the median is than that of "stays as it is", so far ahead."""
    there = [(truth, bands) for truth, bands in tried if place < min(len(truth), len(bands.p50))]
    stays = sum(abs(float(truth[place] - truth[0])) for truth, _ in there)
    errs = sum(abs(float(truth[place]) - bands.p50[place]) for truth, bands in there)
    return None if stays <= ALMOST_EXACT else 1.0 - errs / stays


def _inside_share(tried: Sequence[Tried]) -> float:
    inside = [
        low <= true <= high
        for truth, bands in tried
        for true, low, high in list(zip(truth.tolist(), bands.p10, bands.p90, strict=False))[1:]
    ]
    return float(np.mean(inside)) if inside else math.nan
