"""Opens a market by its name: a file in any known format, a synthetic market, or several joined into one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from slacktide.core.errors import InputError, shown, unknown_name
from slacktide.core.units import format_duration, parse_duration_hours
from slacktide.market.base import EPOCH, Market, Moves, Pool, assuming, with_notice
from slacktide.market.formats.market_bytes import read_bytes
from slacktide.market.pools.places import assumed_moves
from slacktide.market.series import resample
from slacktide.market.spec import ReadOptions, is_market_file, is_synthetic, parse_notice_hours, parts_of

_SYNTHETIC: dict[str, tuple[str, Callable[[str], Any], Any]] = {
    "days": ("days", float, 30.0),
    "seed": ("seed", int, 0),
    "slot": ("slot_hours", parse_duration_hours, None),
    "pools": ("pools", int, 1),
    "notice": ("notice_hours", parse_notice_hours, 0.0),
}
"""Options of a synthetic market: what `synthesize` calls each, how it is read, and what it usually is."""


def open_market(spec: str, *, data: bytes | None = None, **options: Any) -> Market:
    """Open a market: a path, or `synthetic:PROFILE?seed=3&days=14&slot=10m&pools=2&notice=10m`.

    Several with commas between them are joined into one, and so are the traces of a market file (`*.yaml`).
    Options are the fields of `ReadOptions`; money is in USD per GPU-hour. What a file leaves open is taken
    from them or from documented defaults, and said in the market's assumptions; so is every gap that was
    filled. Where `data` is given, it stands for what the file holds. Raises InputError or FileError.
    """
    how = ReadOptions(**options)
    if data is not None:
        return moves_said(_opened(spec, how, data))
    if is_market_file(spec):
        return notice_said(_market_file(spec, how))
    markets = [_opened(part, how) for part in parts_of(spec)]
    return notice_said(moves_said(markets[0] if len(markets) == 1 else joined(markets, spec)))


def _opened(path: str, options: ReadOptions, data: bytes | None = None) -> Market:
    if is_synthetic(path):
        options.refuse("a synthetic market")
        return _in_slots(_synthetic(path), options)
    # A process reads one format, and a synthetic market none: most never load Arrow.
    from slacktide.market.formats.price_changes import (
        EVENT_COLUMNS,
        HISTORY_KEY,
        read_aws_history,
        read_price_events,
    )
    from slacktide.market.formats.skypilot_traces import read_skypilot
    from slacktide.market.formats.table import read_table
    from slacktide.market.formats.whole_market import is_whole, read_whole

    data = read_bytes(path) if data is None else data
    if is_market_file(path):
        raise InputError(f"{path}: a market file must be named alone, got it as a feed or between commas")
    if is_whole(data):
        options.refuse("a sent market, which already says it")
        return _in_slots(read_whole(data, path), options)
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] in (b"{", b"[") or Path(path).suffix == ".json":
        # A trace of counts may be long: the key is looked for in the bytes, before any JSON is read.
        read = read_aws_history if HISTORY_KEY.encode() in data else read_skypilot
        return read(path, data, options)
    header = {name.strip() for name in start.split(b"\n")[0].decode(errors="replace").split(",")}
    # Two of its columns are enough, so that the answer to a wrong one is about price changes.
    if len(header & set(EVENT_COLUMNS)) >= 2:
        return read_price_events(path, data, options)
    options.refuse("a table, which already says it")
    return read_table(path, data, options)


def _in_slots(market: Market, options: ReadOptions) -> Market:
    return market if options.slot_hours is None else resample(market, options.slot_hours)


def _market_file(path: str, options: ReadOptions) -> Market:
    from slacktide.market.formats.market_file import parse_market_file

    found = parse_market_file(read_bytes(path), path)
    traces = [trace.applied_to(_opened(trace.file, options)) for trace in found.traces]
    market = with_notice(joined(traces, path, found.moves), found.notice_hours)
    return assuming(market, assumed_moves(found.moves, found.given)) if len(market.pools) > 1 else market


def _synthetic(spec: str) -> Market:
    from slacktide.market.synthetic import DEFAULT_PROFILE, profile, synthesize

    name, _, query = spec.partition(":")[2].partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    for key in given:
        if key not in _SYNTHETIC:
            raise InputError(f"{spec}: {unknown_name('an option', key, _SYNTHETIC)}")
    made = profile(name or DEFAULT_PROFILE)
    return synthesize(made, **{_SYNTHETIC[key][0]: _option(spec, key, given.get(key)) for key in _SYNTHETIC})


def _option(spec: str, key: str, text: str | None) -> Any:
    _, read, usual = _SYNTHETIC[key]
    if text is None:
        return usual
    try:
        return read(text)
    except InputError as error:
        raise InputError(f"{spec}: {key}: {error}") from None
    except ValueError:
        number = "a whole number" if read is int else "a number"
        raise InputError(f"{spec}: {key} must be {number}, got {shown(text)}") from None


_SAME_SLOT = 1e-9  # slot lengths that differ by less than this share are one


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
    given = len(market.pools) < 2 or market.moves != Moves()
    return market if given else assuming(market, assumed_moves(market.moves))


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


def notice_said(market: Market) -> Market:
    """Return a market that says so where its warnings are too short to be seen when a slot begins."""
    short = [pool for pool in market.pools if 0.0 < pool.notice_hours < pool.slot_hours * (1.0 - 1e-6)]
    if not short:
        return market
    notice, slot = format_duration(short[0].notice_hours), format_duration(short[0].slot_hours)
    return assuming(market, f"A notice of {notice} is shorter than a slot of {slot}, so it warns of nothing.")
