"""The market of a journal's jobs up to now: what each pool offers, and what it offered lately."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from slacktide.app.markets.market import MarketSpec
from slacktide.app.planning.live_prices import with_spot_seen
from slacktide.core.errors import InputError
from slacktide.engine.job.journal_market import standing
from slacktide.journal.events import SiteOpened
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.base import Market, Pool
from slacktide.market.live.feed import open_feed
from slacktide.market.source import open_market
from slacktide.market.spec import is_feed
from slacktide.report.wire import values

MOST_SLOTS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRequest:
    """How much of the market to return, as of which hour of its clock."""

    now_hours: float
    slots: int = 1
    pool: str = ""  # only this pool; empty: all


def market_now(journal: Path, usual: MarketSpec, request: MarketRequest) -> dict[str, Any]:
    """Return what pools offer now and offered before, never what comes: a recorded market has its future.

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
    return open_feed(**options) if is_feed(options["spec"]) else _record(written)


@lru_cache(maxsize=1)
def _record(written: str) -> Market:
    """Open a recorded market once for all requests: it does not change while jobs are on it."""
    return open_market(**json.loads(written))


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
