"""Open a market by its name: a file in any known format, a synthetic market, or several joined into one.

Several are joined by commas between their names, or by a market file (YAML), which also says what moves
between their pools cost and how long before a loss they warn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from slacktide.core.errors import InputError, shown, unknown_name
from slacktide.core.files import utf8_text
from slacktide.core.units import format_duration, parse_duration_hours, parse_gbit_per_s, parse_money_usd
from slacktide.core.yaml_fields import Fields, Reader, items, root, scalar, text_of
from slacktide.core.yaml_tree import Mistakes, Scalar, Series, Tree, describe, parse_tree
from slacktide.market.base import EPOCH, Market, Moves, Pool, assuming, with_notice
from slacktide.market.formats.market_bytes import read_bytes
from slacktide.market.pools.places import assumed_moves, region_of
from slacktide.market.series import resample
from slacktide.market.spec import (
    FEED,
    ReadOptions,
    is_market_file,
    is_synthetic,
    parse_notice_hours,
    parts_of,
)

_SYNTHETIC: dict[str, tuple[str, Callable[[str], Any]]] = {
    "days": ("days", float),
    "seed": ("seed", int),
    "slot": ("slot_hours", parse_duration_hours),
    "pools": ("pools", int),
    "notice": ("notice_hours", parse_notice_hours),
}
"""Options of a synthetic market: what `synthesize` calls each, and how it is read."""

MARKET_KEYS = ("traces", "moves", "notice")  # all keys of a market file, and of its parts
TRACE_KEYS = ("file", "gpu", "prefix", "notice")
MOVES_KEYS = ("within_region", "between_regions", "between_continents", "speed", "pairs")
PAIR_KEYS = ("from", "to", "cost")
MAX_TRACES = 1000
UNLIMITED = "unlimited"  # what a file says of a network that takes no time


class Trace(NamedTuple):
    """One trace of a market file."""

    file: str
    gpu: str = ""  # the GPU type of its pools, whatever the trace says; empty: as the trace says
    prefix: str = ""  # what the names of its pools begin with
    notice_hours: float = 0.0
    """How long before they take spot back its pools warn; 0: as the market file says for all."""

    def applied_to(self, market: Market) -> Market:
        """Return the trace's market with the names, the GPU type and the notice that the file gives it."""
        market = with_notice(market, self.notice_hours)
        if not (self.gpu or self.prefix):
            return market
        pools = (
            replace(pool, name=self.prefix + pool.name, gpu=self.gpu or pool.gpu) for pool in market.pools
        )
        uncounted = tuple(self.prefix + name for name in market.uncounted)
        return replace(market, pools=tuple(pools), uncounted=uncounted)


def open_market(spec: str, *, data: bytes | None = None, **options: Any) -> Market:
    """Open a market: a path, or `synthetic:PROFILE?seed=3&days=14&slot=10m&pools=2&notice=10m`.

    Several with commas between them are joined into one, and so are the traces of a market file (`*.yaml`).
    Options are the fields of `ReadOptions`; money is in USD per GPU-hour. What a file does not say is taken
    from them or from documented defaults, and noted in the market's assumptions; so is every gap that was
    filled. `data`, if given, is read instead of the file. Raises InputError or FileError.
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
    # Imported here: a process reads one format, or none for a synthetic market, and most never load Arrow.
    from slacktide.market.formats.price_changes import (
        EVENT_COLUMNS,
        HISTORY_KEY,
        read_aws_history,
        read_price_events,
    )
    from slacktide.market.formats.samples import first_line
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
    # Two of its columns are enough, so that the error for a wrong one is about price changes.
    if len(set(first_line(start)) & set(EVENT_COLUMNS)) >= 2:
        return read_price_events(path, data, options)
    options.refuse("a table, which already says it")
    return read_table(path, data, options)


def _in_slots(market: Market, options: ReadOptions) -> Market:
    return market if options.slot_hours is None else resample(market, options.slot_hours)


def _market_file(path: str, options: ReadOptions) -> Market:
    mistakes = Mistakes(path)
    tree = parse_tree(utf8_text(read_bytes(path), path), mistakes)
    fields = root(tree, mistakes, MARKET_KEYS, kind="market", least="traces")
    fields.require("traces", "[a.csv, b.csv]")
    traces = fields.read("traces", _traces, ())
    moves, given = fields.read("moves", _moves, (Moves(), ()))
    notice_hours = fields.read("notice", scalar(parse_notice_hours), 0.0)
    mistakes.check()
    markets = [trace.applied_to(_opened(trace.file, options)) for trace in traces]
    market = with_notice(joined(markets, path, moves), notice_hours)
    # Only what the file does not say about moves is an assumption.
    return assuming(market, assumed_moves(moves, given)) if len(market.pools) > 1 else market


def _traces(tree: Tree, mistakes: Mistakes) -> tuple[Trace, ...]:
    listed = items(tree, "a list such as [a.csv, b.csv]")
    if len(listed) > MAX_TRACES:
        raise InputError(f"must be a list of at most {MAX_TRACES} traces, got {len(listed)}")
    return tuple(_trace(item, f"traces[{which}]", mistakes) for which, item in enumerate(listed, start=1))


def _trace(tree: Tree, name: str, mistakes: Mistakes) -> Trace:
    try:
        if isinstance(tree, Scalar):
            return Trace(_file(tree, mistakes))
        fields = Fields(tree, mistakes, TRACE_KEYS, prefix=f"{name}.")
    except InputError as error:
        mistakes.add(tree.place, f"{name}: {error}")
        return Trace("")
    fields.require("file", "b.json")
    return Trace(
        fields.read("file", _file, ""),
        fields.read("gpu", scalar(_text), ""),
        fields.read("prefix", scalar(_text), ""),
        fields.read("notice", scalar(parse_notice_hours), 0.0),
    )


def _file(tree: Tree, mistakes: Mistakes) -> str:
    """Read the name of a trace; raises InputError unless it is synthetic or a file that exists."""
    text, folder = text_of(tree), mistakes.folder
    if is_synthetic(text):
        return text
    if text.startswith(FEED):
        raise InputError(
            f"must be a trace that is complete, got {shown(text)}; a live feed is one table with all pools"
        )
    if is_market_file(text):
        raise InputError(f"must be a trace, got another market file, {shown(text)}; name its traces here")
    path = folder / _text(text)
    if not path.is_file():
        raise InputError(f"must be a file in {folder}, found none called {shown(text)}")
    return str(path)


def _moves(tree: Tree, mistakes: Mistakes) -> tuple[Moves, tuple[str, ...]]:
    fields = Fields(tree, mistakes, MOVES_KEYS, prefix="moves.")
    usd = scalar(parse_money_usd)
    readers: dict[str, tuple[str, Reader[Any]]] = {
        "within_region": ("within_region_usd_per_gb", usd),
        "between_regions": ("between_regions_usd_per_gb", usd),
        "between_continents": ("between_continents_usd_per_gb", usd),
        "speed": ("gbit_per_s", scalar(_speed)),
        "pairs": ("pairs", _pairs),
    }
    read = {name: fields.read(key, reader, None) for key, (name, reader) in readers.items()}
    given = {name: value for name, value in read.items() if value is not None}
    return Moves(**given), tuple(given)


def _speed(text: str) -> float:
    return math.inf if text == UNLIMITED else parse_gbit_per_s(text)


def _pairs(tree: Tree, mistakes: Mistakes) -> tuple[tuple[str, str, float], ...]:
    if not isinstance(tree, Series):
        raise InputError(f"must be a list of {{from: …, to: …, cost: …}}, got {describe(tree)}")
    pairs: dict[frozenset[str], tuple[str, str, float]] = {}
    for which, item in enumerate(tree.items, start=1):
        fields = Fields.of_item(item, mistakes, PAIR_KEYS, f"moves.pairs[{which}]")
        if fields is None:
            continue
        pair = _pair(fields)
        if pairs.setdefault(frozenset(pair[:2]), pair) is not pair:
            mistakes.add(item.place, f"moves.pairs[{which}]: two regions must come once, got them again")
    return tuple(pairs.values())


def _pair(fields: Fields) -> tuple[str, str, float]:
    for key, example in (("from", "us-east-1"), ("to", "us-east-2"), ("cost", "0.01 usd")):
        fields.require(key, example)
    first, second = (fields.read(key, scalar(_text), "") for key in ("from", "to"))
    return region_of(first), region_of(second), fields.read("cost", scalar(parse_money_usd), 0.0)


def _text(text: str) -> str:
    if not text.strip():
        raise InputError("must not be empty, got no text")
    return text.strip()


def _synthetic(spec: str) -> Market:
    from slacktide.market.synthetic import DEFAULT_PROFILE, profile, synthesize

    name, _, query = spec.partition(":")[2].partition("?")
    options: dict[str, Any] = {"days": 30.0, "seed": 0}
    for key, text in dict(parse_qsl(query, keep_blank_values=True)).items():
        if key not in _SYNTHETIC:
            raise InputError(f"{spec}: {unknown_name('an option', key, _SYNTHETIC)}")
        option, read = _SYNTHETIC[key]
        try:
            options[option] = read(text)
        except InputError as error:
            raise InputError(f"{spec}: {key}: {error}") from None
        except ValueError:
            number = "a whole number" if read is int else "a number"
            raise InputError(f"{spec}: {key} must be {number}, got {shown(text)}") from None
    return synthesize(profile(name or DEFAULT_PROFILE), **options)


_SAME_SLOT = 1e-9  # slot lengths that differ by less than this share are one


def joined(markets: Sequence[Market], source: str, moves: Moves | None = None) -> Market:
    """Put the pools of several markets into one, resampled to the longest of their slots.

    Each pool keeps its own beginning and end. Raises InputError if two pools have the same name, or if the
    pools have no time in common.
    """
    _check_names(markets, source)
    slot_hours = max(pool.slot_hours for market in markets for pool in market.pools)
    alike = [resample(market, slot_hours) for market in markets]
    pools = tuple(pool for market in alike for pool in market.pools)
    sentences = _sentences(markets)
    lengths = (pool.slot_hours for market in markets for pool in market.pools)
    if not all(math.isclose(length, slot_hours, rel_tol=_SAME_SLOT) for length in lengths):
        sentences.append(
            f"Traces with different slots were resampled to the longest, {60 * slot_hours:g} min."
        )
    sentences += _common_time(pools, source)
    uncounted = tuple(name for market in markets for name in market.uncounted)
    return Market(pools, source, tuple(sentences), Moves() if moves is None else moves, uncounted)


def moves_said(market: Market) -> Market:
    """Return a market whose assumptions say what moves between its pools cost, unless that was given."""
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


def _sentences(markets: Sequence[Market]) -> list[str]:
    """Return the assumptions of all markets; those that not all of them make name their market."""
    every = set.intersection(*(set(market.assumptions) for market in markets))
    own = [
        f"{market.source}: {sentence}"
        for market in markets
        for sentence in market.assumptions
        if sentence not in every
    ]
    return [sentence for sentence in markets[0].assumptions if sentence in every] + own


def _common_time(pools: Sequence[Pool], source: str) -> list[str]:
    """Say which time the pools have in common, unless it is all; raises InputError if there is none."""
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
    """Return a market whose assumptions say so if its notices are too short to be seen at a slot's start."""
    short = [pool for pool in market.pools if 0.0 < pool.notice_hours < pool.slot_hours * (1.0 - 1e-6)]
    if not short:
        return market
    notice, slot = format_duration(short[0].notice_hours), format_duration(short[0].slot_hours)
    return assuming(market, f"A notice of {notice} is shorter than a slot of {slot}, so it warns of nothing.")
