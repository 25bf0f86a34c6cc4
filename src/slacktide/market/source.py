"""Opens a market by its name: a file in any known format, a synthetic market, or several joined into one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl

from slacktide.core.errors import InputError, shown, unknown_name
from slacktide.core.units import format_duration, parse_duration_hours
from slacktide.market.base import EPOCH, Market, Pool, with_notice
from slacktide.market.formats.market_bytes import read_bytes
from slacktide.market.formats.price_changes import Assumed
from slacktide.market.formats.samples import Irregular
from slacktide.market.pools.moves import Moves
from slacktide.market.series import resample
from slacktide.market.spec import is_market_file, is_synthetic, parse_notice_hours, parts_of

DEFAULT_DAYS = 30.0
_ASSUMED = ("spot_usd", "on_demand_usd", "spot_gpus", "gpus_per_instance")


def open_market(
    spec: str,
    *,
    data: bytes | None = None,
    slot_hours: float | None = None,
    gaps: str = "hold",
    unsorted: str = "refuse",
    duplicates: str = "refuse",
    spot_usd: float | None = None,
    on_demand_usd: float | None = None,
    spot_gpus: int | None = None,
    gpus_per_instance: int | None = None,
) -> Market:
    """Open a market: a path, or `synthetic:PROFILE?seed=3&days=14&slot=10m&pools=2&notice=10m`.

    Several with commas between them are joined into one, and so are the traces of a market file (`*.yaml`).
    Money is in USD per GPU-hour. What a file leaves open is taken from the arguments or from
    documented defaults, and said in the market's assumptions; so is every gap that was filled.
    Where `data` is given, it stands for what the file holds.
    Raises InputError or FileError.
    """
    irregular = Irregular(gaps, unsorted, duplicates)
    assumed = Assumed(spot_usd, on_demand_usd, spot_gpus, gpus_per_instance)

    def opened(one: str) -> Market:
        if is_synthetic(one):
            assumed.refuse(_ASSUMED, "a synthetic market")
            return _synthetic(one, slot_hours)
        return _file(one, read_bytes(one) if data is None else data, irregular, assumed, slot_hours)

    if data is not None:
        return moves_said(opened(spec))
    if is_market_file(spec):
        return notice_said(_market_file(spec, opened))
    parts = parts_of(spec)
    if len(parts) == 1:
        return notice_said(moves_said(opened(spec)))
    return notice_said(moves_said(joined([opened(part) for part in parts], spec)))


def _file(path: str, data: bytes, irregular: Irregular, assumed: Assumed, slot_hours: float | None) -> Market:
    # A process reads one format, and a synthetic market none.
    from slacktide.market.formats.price_changes import (
        EVENT_COLUMNS,
        HISTORY_KEY,
        read_aws_history,
        read_price_events,
    )
    from slacktide.market.formats.skypilot_traces import read_skypilot
    from slacktide.market.formats.table import read_table
    from slacktide.market.formats.whole_market import is_whole, read_whole

    if is_market_file(path):
        raise InputError(f"{path}: a market file must be named alone, got it as a feed or between commas")
    if is_whole(data):
        assumed.refuse(_ASSUMED, "a sent market, which already says it")
        sent = read_whole(data, path)
        return sent if slot_hours is None else resample(sent, slot_hours)
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] in (b"{", b"[") or Path(path).suffix == ".json":
        if HISTORY_KEY.encode() in data:
            return read_aws_history(
                path, data=data, assumed=assumed, irregular=irregular, slot_hours=slot_hours
            )
        return read_skypilot(path, data=data, assumed=assumed, slot_hours=slot_hours)
    header = {name.strip() for name in start.split(b"\n")[0].decode(errors="replace").split(",")}
    if len(header & set(EVENT_COLUMNS)) >= 2:
        return read_price_events(path, data=data, assumed=assumed, irregular=irregular, slot_hours=slot_hours)
    assumed.refuse(_ASSUMED, "a table, which already says it")
    return read_table(path, data=data, irregular=irregular, slot_hours=slot_hours)


def _market_file(path: str, open_trace: Callable[[str], Market]) -> Market:
    """Open a market file and the traces that it names; raises FileError with the place of every mistake."""
    from slacktide.market.formats.market_file import parse_market_file

    found = parse_market_file(read_bytes(path), path)
    traces = [trace.applied_to(open_trace(trace.file)) for trace in found.traces]
    market = with_notice(joined(traces, path, found.moves), found.notice_hours)
    sentence = found.moves.assumed(found.given) if len(market.pools) > 1 else ""
    return replace(market, assumptions=(*market.assumptions, *filter(None, [sentence])))


def _synthetic(spec: str, slot_hours: float | None) -> Market:
    from slacktide.market.synthetic.profiles import DEFAULT_PROFILE, profile
    from slacktide.market.synthetic.synthetic import synthesize

    name, _, query = spec.partition(":")[2].partition("?")
    options = _options(spec, query)
    market = synthesize(
        profile(name or DEFAULT_PROFILE),
        days=_number(spec, "days", options.get("days", str(DEFAULT_DAYS))),
        seed=_whole(spec, "seed", options.get("seed", "0")),
        slot_hours=_slot(options.get("slot")),
        pools=_whole(spec, "pools", options.get("pools", "1")),
        notice_hours=_notice(spec, options.get("notice")),
    )
    return market if slot_hours is None else resample(market, slot_hours)


def _options(spec: str, query: str) -> dict[str, str]:
    known = ("days", "notice", "pools", "seed", "slot")
    pairs = parse_qsl(query, keep_blank_values=True)
    for key, _ in pairs:
        if key not in known:
            raise InputError(f"{spec}: {unknown_name('an option', key, known)}")
    return dict(pairs)


def _number(spec: str, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{spec}: {name} must be a number, got {shown(text)}") from None


def _whole(spec: str, name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{spec}: {name} must be a whole number, got {shown(text)}") from None


def _notice(spec: str, text: str | None) -> float:
    try:
        return 0.0 if text is None else parse_notice_hours(text)
    except InputError as error:
        raise InputError(f"{spec}: notice: {error}") from None


def _slot(text: str | None) -> float | None:
    return None if text is None else parse_duration_hours(text)


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
