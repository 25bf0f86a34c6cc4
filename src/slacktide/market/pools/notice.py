"""Markets that warn: how long before spot goes its holder is notified, and which warnings are too short."""

from __future__ import annotations

from dataclasses import replace

from slacktide.core.errors import InputError, shown
from slacktide.core.units import format_duration, parse_duration_hours
from slacktide.market.base import Market

MOST_HOURS = 24.0
"""No market knows a day before that it will take spot back."""


def parse_notice_hours(text: str) -> float:
    """Read how long before a loss a market warns; raises InputError."""
    hours = parse_duration_hours(text)
    if hours > MOST_HOURS:
        raise InputError(f"must be at most {MOST_HOURS:g} h, got {shown(text)}")
    return hours


def warning(market: Market, notice_hours: float) -> Market:
    """Return a market whose pools warn this long before they take spot back, unless they say it."""
    if not notice_hours:
        return market
    pools = (replace(pool, notice_hours=pool.notice_hours or notice_hours) for pool in market.pools)
    return replace(market, pools=tuple(pools))


def notice_said(market: Market) -> Market:
    """Return a market that says so where its warnings are too short to be seen when a slot begins."""
    short = [pool for pool in market.pools if 0.0 < pool.notice_hours < pool.slot_hours * (1.0 - 1e-6)]
    if not short:
        return market
    notice, slot = format_duration(short[0].notice_hours), format_duration(short[0].slot_hours)
    sentence = f"A notice of {notice} is shorter than a slot of {slot}, so it warns of nothing."
    if sentence in market.assumptions:
        return market
    return replace(market, assumptions=(*market.assumptions, sentence))
