"""The market of a journal's jobs: what each pool offers, what it offered lately, and what it probably will.

A forecast draws many futures from the model that plans use; bands say where most of them lie. It comes with a
check of how good the model was lately: it forecasts again from past moments, with only what was known then,
and is compared with what came true and with the forecast "stays as it is".
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.app.markets.market import MarketSpec, open_named, with_spot_seen
from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.types import Job
from slacktide.engine.job.journal_market import open_written, standing
from slacktide.journal.events import SiteOpened
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.base import Market, Pool
from slacktide.market.spec import is_feed
from slacktide.report.wire import values
from slacktide.simulation.plan.futures import futures_of_pool
from slacktide.simulation.plan.planned_job import PlanStart

MOST_SLOTS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRequest:
    """How much of the market to return, as of which hour of its clock."""

    now_hours: float
    slots: int = 1
    pool: str = ""  # only this pool; empty: all


def market_now(journal: Path, usual: MarketSpec, request: MarketRequest) -> dict[str, Any]:
    """Return what pools offer now and offered before, but not the future, which a recorded market knows.

    Before the first job the market has no clock yet, so only its pools are returned.
    """
    if not 1 <= request.slots <= MOST_SLOTS:
        raise InputError(f"slots must be between 1 and {MOST_SLOTS}, got {request.slots}")
    market, site = journal_market(journal, usual)
    pools = [market.pool(request.pool)] if request.pool else list(market.pools)
    live = site is not None and is_feed(json.loads(site.market)["spec"])
    return {"live": live, "pools": [_offers(pool, site, live, request) for pool in pools]}


def journal_market(journal: Path, usual: MarketSpec) -> tuple[Market, SiteOpened | None]:
    """Return the market of a journal's jobs, with the spot that was seen in pools without counts.

    Before the first job it is the usual one, and has no clock yet.
    """
    with SqliteStore(journal, create=False) as store:
        site = read_state(store).site
    return with_spot_seen(usual.open() if site is None else _opened(site.market), journal), site


def _opened(written: str) -> Market:
    options: dict[str, Any] = json.loads(written)
    return open_named(**options) if is_feed(options["spec"]) else open_written(written)[0]


def _offers(pool: Pool, site: SiteOpened | None, live: bool, request: MarketRequest) -> dict[str, Any]:
    last = -1 if site is None else standing(site, pool, request.now_hours).slot
    end = min(last + 1, len(pool.spot_gpus))
    since = max(0, end - request.slots)
    stock = pool.on_demand_gpus
    return {
        "name": pool.name,
        "gpu": pool.gpu,
        "slot_hours": pool.slot_hours,
        "until_utc": values.utc(pool.end) if live else None,
        "since_utc": values.utc(pool.time(since)) if end > since else None,
        "spot_usd_per_gpu_hour": pool.spot_usd_per_gpu_hour[since:end].tolist(),
        "on_demand_usd_per_gpu_hour": pool.on_demand_usd_per_gpu_hour[since:end].tolist(),
        "spot_gpus": pool.spot_gpus[since:end].tolist(),
        "on_demand_gpus": None if stock is None else stock[since:end].tolist(),
    }


MOST_HOURS = 7 * 24
MOST_GPUS = 64
"""More GPUs count as this many: hardly any job uses more, and every number is a state of the model."""
FUTURES, CHECKED_FUTURES = 100, 40
MOMENTS = 12  # past moments from which the model is checked
CHECKED_SHARE = 0.5
"""The newest share of the past, in which these moments lie: earlier the model would have known too little."""
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
    """How good forecasts from past moments were; lists have an entry for each of `hours` ahead."""

    moments: int
    hours: tuple[float, ...]
    price_skill: tuple[float | None, ...]
    """1 - error of the median / error of "stays as it is"; None if the latter is never wrong."""
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
    check: ForecastCheck | None  # None if the past is too short


def forecast_pool(journal: Path, usual: MarketSpec, request: ForecastRequest) -> PoolForecast | None:
    """Forecast a pool of the journal's market; None before the first job, when no clock runs.

    Raises InputError for an unknown pool, and for hours that are not in range.
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
    """Forecast a pool from a slot on, without using anything after it."""
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
    futures = futures_of_pool(any_job, begin.place, begin.neighbours, paths=count)
    pools = [options.pools[0] for options in futures.options]
    usd = np.array([pool.spot_usd_per_gpu_hour[futures.start :] for pool in pools])
    return usd, np.minimum(
        np.array([pool.spot_gpus[futures.start :] for pool in pools], dtype=np.float64), most
    )


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
    shown = [ahead_hours for ahead_hours in CHECKED_HOURS if ahead_hours <= hours]
    places = [max(1, round(ahead_hours / pool.slot_hours)) for ahead_hours in shown]
    price, gpus = ([pair[kind] for pair in tried] for kind in range(2))
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
    """Return by which share the median errs less than "stays as it is", `place` slots ahead."""
    pairs = [(truth, bands) for truth, bands in tried if place < min(len(truth), len(bands.p50))]
    stays = sum(abs(float(truth[place] - truth[0])) for truth, _ in pairs)
    errs = sum(abs(float(truth[place]) - bands.p50[place]) for truth, bands in pairs)
    return None if stays <= ALMOST_EXACT else 1.0 - errs / stays


def _inside_share(tried: Sequence[Tried]) -> float:
    inside = [
        low <= true <= high
        for truth, bands in tried
        for true, low, high in list(zip(truth.tolist(), bands.p10, bands.p90, strict=False))[1:]
    ]
    return float(np.mean(inside)) if inside else math.nan
