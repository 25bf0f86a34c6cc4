"""The answer of `aws ec2 describe-spot-price-history`: JSON, newest first, price per machine-hour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slacktide.core.errors import FileError
from slacktide.market.base import Market
from slacktide.market.formats.price_changes import Assumed, PriceEvent, event_market
from slacktide.market.formats.reading.cells import Cell
from slacktide.market.formats.reading.json_files import json_object, kind_of
from slacktide.market.formats.reading.market_bytes import read_bytes
from slacktide.market.formats.reading.samples import Irregular, SamplePlace

HISTORY_KEY = "SpotPriceHistory"
_KEYS = ("AvailabilityZone", "InstanceType", "Timestamp", "SpotPrice")


def read_aws_history(
    path: str | Path,
    *,
    data: bytes | None = None,
    assumed: Assumed | None = None,
    irregular: Irregular | None = None,
    slot_hours: float | None = None,
) -> Market:
    """Read a price history; a pool is `zone/type`, and `zone/type/product` where there are several.

    Raises FileError with the entry of what is wrong.
    """
    found = json_object(read_bytes(path) if data is None else data, str(path))
    entries = _entries(found, str(path))
    products = {str(entry.get("ProductDescription", "")) for entry in entries}
    events = _events(entries, str(path), len(products) > 1)
    return event_market(events, str(path), assumed or Assumed(), irregular or Irregular(), slot_hours)


def _entries(found: dict[str, Any], path: str) -> list[dict[str, Any]]:
    entries = found.get(HISTORY_KEY)
    if not isinstance(entries, list):
        came = kind_of(entries) if HISTORY_KEY in found else "no such key"
        raise FileError(f"{HISTORY_KEY} must be an array, got {came}", path=path)
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise FileError(f"{HISTORY_KEY}[{number}] must be an object, got {kind_of(entry)}", path=path)
        for key in _KEYS:
            if not isinstance(entry.get(key), str | int | float):
                raise FileError(f"{HISTORY_KEY}[{number}] must have {key}, got {sorted(entry)}", path=path)
    return entries


def _events(entries: list[dict[str, Any]], path: str, several: bool) -> Iterator[PriceEvent]:
    for number, entry in enumerate(entries):
        place = SamplePlace(None, f"{HISTORY_KEY}[{number}]")
        zone, kind, time, usd = (Cell(str(entry[key]), key, path, place) for key in _KEYS)
        pool = f"{zone.given()}/{kind.given()}"
        if several:
            pool += f"/{entry.get('ProductDescription', 'unknown')}"
        yield PriceEvent(time.micros(), pool, kind.given(), usd.usd(), place)
