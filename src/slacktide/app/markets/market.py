"""Which market to use and how to read it, as one value: for plans, back-tests, submissions and controllers.

Also completes a live market for a plan: with the spot that the journal saw, and a warning about old prices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from slacktide.core.units import format_duration
from slacktide.engine.job.availability import spot_seen
from slacktide.journal.store.sqlite import read_if_intact
from slacktide.market.availability import learned
from slacktide.market.base import Market, Pool
from slacktide.market.formats.market_bytes import NO_NOTES, read_notes
from slacktide.market.live.feed import STALE_HOURS, STALE_SLOTS
from slacktide.market.series import resample
from slacktide.market.source import open_market
from slacktide.market.spec import is_feed

DEFAULT_MARKET = "synthetic:h100"
READING = ("slot_hours", "gaps", "spot_usd", "on_demand_usd")
"""The fields of a `MarketSpec` that say how its source is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSpec:
    """What a user says about a market; the rest comes from the job file, the journal or the market itself."""

    source: str | None = None
    """A file, `synthetic:PROFILE`, or `feed:FILE` for one that is still being written."""
    usual: str | None = None  # the market of jobs that name none, as the user's settings say
    pool: str | None = None  # only this pool of it
    slot_hours: float | None = None
    gaps: str | None = None  # what a hole in a trace means: refuse, hold or empty
    spot_usd: float | None = None  # USD per GPU-hour, where the trace has no price
    on_demand_usd: float | None = None
    start: int | None = None  # the slot in which a live run begins; with `shared`, its first job
    shared: bool = False
    """Whether other jobs come later: then a recorded market starts in its middle, to last for them."""

    def options(self) -> dict[str, str | float]:
        """Return what was said about how to read the source, by the names that readers of markets use."""
        values = {name: getattr(self, name) for name in READING}
        return {name: value for name, value in values.items() if value is not None}

    def named(self, written: str | None) -> str | None:
        """Return the market named here, else the one written in a job file, else the usual one."""
        return self.source or written or self.usual

    def open(self, written: str | None = None) -> Market:
        """Open the market that is named here or in a job file, else the usual one, else the default."""
        return open_named(self.named(written) or DEFAULT_MARKET, **{"gaps": "hold", **self.options()})


def as_market(market: Market | Pool | str, slot_hours: float | None) -> Market:
    """Return a market given as it is, as one pool or by name, in slots of `slot_hours` unless None."""
    if isinstance(market, str):
        return open_market(market, slot_hours=slot_hours)
    if isinstance(market, Pool):
        market = Market((market,), source=market.name)
    return market if slot_hours is None else resample(market, slot_hours)


def open_named(spec: str, **options: Any) -> Market:
    """Open a market by its name; `feed:FILE`, which is still being written, is opened up to its last row."""
    if is_feed(spec):
        from slacktide.market.live.feed import open_feed

        return open_feed(spec, **options)
    return open_market(spec, **options)


def with_spot_seen(market: Market, journal: Path | None) -> Market:
    """Return a market with the spot that a journal saw, in pools whose feed reports no spot counts.

    The journal is only read. Without one, or with a damaged one, the market is returned as it is: `slacktide
    jobs` says what is wrong with it.
    """
    if not market.uncounted:
        return market
    return read_if_intact(journal, lambda store: learned(market, spot_seen(store.read(job="")))) or market


def with_age(market: Market, path: str, now_utc: datetime) -> Market:
    """Return a market; if its prices are old, its first assumption says how old and why."""
    last = max(pool.end for pool in market.pools)
    slot_hours = market.pools[0].slot_hours
    old_hours = (now_utc - last).total_seconds() / 3600.0
    if old_hours < max(STALE_HOURS, STALE_SLOTS * slot_hours):
        return market
    why = (read_notes(path) or NO_NOTES).trouble
    sentence = (
        f"WARNING: prices are {format_duration(_rounded(old_hours))} old: {path} ends at "
        f"{last:%Y-%m-%d %H:%M} UTC{f' ({why})' if why else ''}."
    )
    return replace(market, assumptions=(sentence, *market.assumptions))


def _rounded(hours: float) -> float:
    """Round a time for a sentence: to whole minutes, hours or days."""
    unit = 1.0 / 60.0 if hours < 2.0 else 1.0 if hours < 48.0 else 24.0
    return round(hours / unit) * unit
