"""Prepares a live market for a plan: adds the spot that the journal saw, and warns of old prices."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from slacktide.core.errors import SlacktideError
from slacktide.core.units import format_duration
from slacktide.engine.job.availability import spot_seen
from slacktide.journal.store.real_path import real_path
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.availability import learned
from slacktide.market.base import Market
from slacktide.market.formats.market_bytes import NO_NOTES, read_notes
from slacktide.market.live.feed import STALE_HOURS, STALE_SLOTS


def with_spot_seen(market: Market, journal: Path | None) -> Market:
    """Return a market with the spot that a journal saw, in pools whose feed reports no spot counts.

    The journal is only read. Where there is none, or a damaged one, the market is as it was: `slacktide jobs`
    says what is wrong with it.
    """
    if not market.uncounted or journal is None or not real_path(journal).exists():
        return market
    try:
        with SqliteStore(journal, create=False) as store:
            return learned(market, spot_seen(store.read(job="")))
    except SlacktideError:
        return market


def with_age(market: Market, path: str, now_utc: datetime) -> Market:
    """Return a market whose first assumption says how old its prices are and why, where they are old."""
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
