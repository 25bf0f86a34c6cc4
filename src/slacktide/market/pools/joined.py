"""Several markets joined into one: their pools side by side, in slots of one length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from slacktide.core.errors import InputError, shown
from slacktide.market.base import EPOCH, Market, Pool
from slacktide.market.pools.moves import Moves
from slacktide.market.series import resample

_SAME_SLOT = 1e-9
"""Slot lengths that differ by less than this share are one."""


def joined(markets: Sequence[Market], source: str, moves: Moves | None = None) -> Market:
    """Put the pools of several markets into one, brought to the longest of their slots.

    Each pool keeps its own beginning and end. Raises InputError where two pools have one name, or where there
    is no time of which all pools know.
    """
    _check_names(markets, source)
    slot_hours = max(pool.slot_hours for market in markets for pool in market.pools)
    alike = [resample(market, slot_hours) for market in markets]
    pools = tuple(pool for market in alike for pool in market.pools)
    sentences = (*_said(markets), *_slots_said(markets, slot_hours), *_span_said(pools, source))
    uncounted = tuple(name for market in markets for name in market.uncounted)
    return Market(pools, source, sentences, Moves() if moves is None else moves, uncounted)


def moves_said(market: Market) -> Market:
    """Return a market that says what is assumed of moves among its pools, where that was not given."""
    sentence = market.moves.assumed()
    if len(market.pools) < 2 or market.moves != Moves() or sentence in market.assumptions:
        return market
    return replace(market, assumptions=(*market.assumptions, sentence))


def _check_names(markets: Sequence[Market], source: str) -> None:
    origin: dict[str, str] = {}
    for market in markets:
        for name in market:
            if name in origin:
                raise InputError(
                    f"{source}: the names of pools must be unique, got {shown(name)} from {origin[name]} and "
                    f"from {market.source}; give one of them a prefix in a market file, as in "
                    "{file: b.csv, prefix: aws/}"
                )
            origin[name] = market.source


def _said(markets: Sequence[Market]) -> list[str]:
    """Return the sentences of all markets: once what all of them say, else with the market that says it."""
    every = set.intersection(*(set(market.assumptions) for market in markets))
    own = [
        f"{market.source}: {sentence}"
        for market in markets
        for sentence in market.assumptions
        if sentence not in every
    ]
    return [sentence for sentence in markets[0].assumptions if sentence in every] + own


def _slots_said(markets: Sequence[Market], slot_hours: float) -> list[str]:
    lengths = (pool.slot_hours for market in markets for pool in market.pools)
    if all(math.isclose(length, slot_hours, rel_tol=_SAME_SLOT) for length in lengths):
        return []
    return [f"Traces with different slots were resampled to the longest, {60 * slot_hours:g} min."]


def _span_said(pools: Sequence[Pool], source: str) -> list[str]:
    """Say which time all pools know of, unless they begin and end together; raises InputError for none."""
    last, first = max(pools, key=lambda pool: pool.start), min(pools, key=lambda pool: pool.end)
    if last.start >= first.end:
        raise InputError(
            f"{source}: all pools must have some time in common, got {shown(first.name)} until "
            f"{first.end:%Y-%m-%d %H:%M} and {shown(last.name)} from {last.start:%Y-%m-%d %H:%M} UTC on; "
            f"join traces of one time (a trace without times is assumed to begin on {EPOCH:%Y-%m-%d})"
        )
    slot = timedelta(hours=pools[0].slot_hours)
    early, late = min(pool.start for pool in pools), max(pool.end for pool in pools)
    if last.start - early < slot and late - first.end < slot:
        return []
    return [
        f"The pools have quotes of different times; all of them from {last.start:%Y-%m-%d %H:%M} to "
        f"{first.end:%Y-%m-%d %H:%M} UTC."
    ]
