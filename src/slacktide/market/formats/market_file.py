"""The market file: several traces as one market, what moving between their pools costs, and if they warn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from slacktide.core.errors import InputError, shown
from slacktide.core.units import parse_gbit_per_s, parse_money_usd
from slacktide.core.yaml_fields import Fields, Reader, items, root, scalar, text_of
from slacktide.core.yaml_tree import Mistakes, Scalar, Series, Tree, describe, parse_tree
from slacktide.market.base import Market, Moves, with_notice
from slacktide.market.formats.market_bytes import as_text
from slacktide.market.pools.places import region_of
from slacktide.market.spec import FEED, is_market_file, is_synthetic, parse_notice_hours

MARKET_KEYS = ("traces", "moves", "notice")
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
    """How long before they take spot back its pools warn; 0: as the file says of all."""

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


@dataclass(frozen=True, slots=True)
class MarketFile:
    """All that a market file says."""

    traces: tuple[Trace, ...]
    moves: Moves
    given: tuple[str, ...]  # which fields of `moves` the file gives; the others are assumed
    notice_hours: float = 0.0
    """How long before they take spot back pools warn that say nothing else; 0: they do not."""


def parse_market_file(data: bytes, path: str) -> MarketFile:
    """Read what a market file says; its folder is where relative paths begin."""
    mistakes = Mistakes(path)
    tree = parse_tree(as_text(data, path), mistakes)
    fields = root(tree, mistakes, MARKET_KEYS, kind="market", least="traces")
    fields.require("traces", "[a.csv, b.csv]")
    traces = fields.read("traces", _traces, ())
    moves, given = fields.read("moves", _moves, (Moves(), ()))
    notice = fields.read("notice", scalar(parse_notice_hours), 0.0)
    mistakes.check()
    return MarketFile(traces, moves, given, notice)


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
    """Read a trace's name, which must be there."""
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
    found: dict[frozenset[str], tuple[str, str, float]] = {}
    for which, item in enumerate(tree.items, start=1):
        fields = Fields.of_item(item, mistakes, PAIR_KEYS, f"moves.pairs[{which}]")
        if fields is None:
            continue
        pair = _pair(fields)
        if found.setdefault(frozenset(pair[:2]), pair) is not pair:
            mistakes.add(item.place, f"moves.pairs[{which}]: two regions must come once, got them again")
    return tuple(found.values())


def _pair(fields: Fields) -> tuple[str, str, float]:
    for key, example in (("from", "us-east-1"), ("to", "us-east-2"), ("cost", "0.01 usd")):
        fields.require(key, example)
    first, second = (fields.read(key, scalar(_text), "") for key in ("from", "to"))
    return region_of(first), region_of(second), fields.read("cost", scalar(parse_money_usd), 0.0)


def _text(text: str) -> str:
    if not text.strip():
        raise InputError("must not be empty, got no text")
    return text.strip()
