"""Price changes as clouds publish them: a price per machine and no word on what is obtainable.

Two forms are read: CSV (`instance_type, zone_name, ts_utc, spot_usd_h`, one change a line), and what
`aws ec2 describe-spot-price-history` prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.errors import FileError, InputError
from slacktide.market.base import Market
from slacktide.market.formats.cells import Cell, CellRow, header_of, in_lines, rows_of
from slacktide.market.formats.default_prices import MachineType, gpu_of, instance
from slacktide.market.formats.market_bytes import as_text, json_object, kind_of, read_bytes
from slacktide.market.formats.samples import ASSUMED_SPOT_GPUS, Irregular, SamplePlace, Samples
from slacktide.market.series import from_events

EVENT_SLOT_HOURS = 0.5
"""Slot length of a feed when none is requested; such prices move every few hours."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """What the caller says about things a file may be silent on; None leaves it to documented defaults."""

    spot_usd: float | None = None
    """USD per GPU-hour."""
    on_demand_usd: float | None = None
    """USD per GPU-hour."""
    spot_gpus: int | None = None
    gpus_per_instance: int | None = None

    def __post_init__(self) -> None:
        for name in ("spot_usd", "on_demand_usd"):
            usd = getattr(self, name)
            if usd is not None and not 0 <= usd < 1e9:
                raise InputError(f"{name} must be >= 0 and finite, got {usd}")
        for name, least in (("spot_gpus", 0), ("gpus_per_instance", 1)):
            count = getattr(self, name)
            if count is not None and not least <= count <= 10**9:
                raise InputError(f"{name} must be >= {least}, got {count}")

    def refuse(self, names: Sequence[str], file: str) -> None:
        """Raise InputError for an option that a kind of file has no use for."""
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(
                    f"{name} must not be given for {file}, got {getattr(self, name)}; leave it out"
                )


class PriceEvent(NamedTuple):
    """A new spot price of a machine type in a zone, in USD per machine-hour."""

    micros: int
    pool: str
    instance_type: str
    usd_per_hour: float
    place: SamplePlace


def event_market(
    events: Iterable[PriceEvent],
    path: str,
    assumed: Assumed,
    irregular: Irregular,
    slot_hours: float | None,
) -> Market:
    """Turn price changes into a market; says in its assumptions what the feed did not."""
    rows = list(events)
    if not rows:
        raise FileError("a price history must have prices, got none", path=path)
    assumed.refuse(("spot_usd",), "a price history")
    machines = _machines(rows, path, assumed)
    gpus = ASSUMED_SPOT_GPUS if assumed.spot_gpus is None else assumed.spot_gpus
    samples = _samples(rows, path, machines, gpus)
    market = from_events(samples, irregular, EVENT_SLOT_HOURS if slot_hours is None else slot_hours)
    return replace(market, assumptions=_sentences(machines, gpus, assumed), uncounted=tuple(market))


def _machines(rows: list[PriceEvent], path: str, assumed: Assumed) -> dict[str, MachineType]:
    machines: dict[str, MachineType] = {}
    for row in rows:
        if row.instance_type not in machines:
            try:
                machines[row.instance_type] = instance(
                    row.instance_type, assumed.gpus_per_instance, assumed.on_demand_usd
                )
            except InputError as error:
                raise FileError(_worded(row.place, str(error)), path=path, line=row.place.line) from None
    return machines


def _samples(rows: list[PriceEvent], path: str, machines: dict[str, MachineType], gpus: int) -> Samples:
    pools: dict[str, int] = {}
    codes = [pools.setdefault(row.pool, len(pools)) for row in rows]
    per_gpu = [row.usd_per_hour / machines[row.instance_type].gpus for row in rows]
    on_demand = [
        machines[row.instance_type].on_demand_usd_per_hour / machines[row.instance_type].gpus for row in rows
    ]
    return Samples(
        path,
        tuple(pools),
        np.array(codes, dtype=np.int64),
        np.array([row.micros for row in rows], dtype=np.int64),
        np.full(len(rows), gpus, dtype=np.int64),
        np.array(per_gpu),
        np.array(on_demand),
        lambda row: rows[row].place,
        _gpu_types(rows, pools),
    )


def _gpu_types(rows: list[PriceEvent], pools: dict[str, int]) -> tuple[str, ...]:
    """Return the GPU type of each pool's machines."""
    types = {row.pool: gpu_of(row.instance_type) for row in rows}
    return tuple(types[pool] for pool in pools)


def _sentences(machines: dict[str, MachineType], gpus: int, assumed: Assumed) -> tuple[str, ...]:
    sentences = [f"The file has prices only: {gpus} spot GPUs are assumed to be available at all times."]
    for name, machine in sorted(machines.items()):
        usd = machine.on_demand_usd_per_hour / machine.gpus
        origin = (
            "as given" if assumed.on_demand_usd is not None else "the AWS list price of 2024 in us-east-1"
        )
        sentences.append(
            f"{name} has {machine.gpus} GPU{'s'[: machine.gpus > 1]} and costs {usd:.4g} USD "
            f"per GPU-hour on demand ({origin})."
        )
    return tuple(sentences)


def _worded(place: SamplePlace, message: str) -> str:
    return f"{place.words}: {message}" if place.words else message


EVENT_COLUMNS = ("instance_type", "zone_name", "ts_utc", "spot_usd_h")


def read_price_events(
    path: str | Path,
    *,
    data: bytes | None = None,
    assumed: Assumed | None = None,
    irregular: Irregular | None = None,
    slot_hours: float | None = None,
) -> Market:
    """Read price changes; raises FileError with the line of what is wrong."""
    text = as_text(read_bytes(path) if data is None else data, path)
    events = _events(text, str(path))
    return event_market(events, str(path), assumed or Assumed(), irregular or Irregular(), slot_hours)


def _events(text: str, path: str) -> Iterator[PriceEvent]:
    rows = rows_of(text, path)
    names = header_of(rows, EVENT_COLUMNS, path)
    where = [names.index(name) for name in EVENT_COLUMNS]
    return (_event(row, where, path) for row in rows)


def _event(row: CellRow, where: list[int], path: str) -> PriceEvent:
    if len(row.cells) != len(where):
        raise FileError(
            f"a row must have {len(where)} cells like the header, got {len(row.cells)}",
            path=path,
            line=row.number,
        )
    place = in_lines(row.number)
    machine, zone, time, usd = (
        Cell(row.cells[index], name, path, place) for index, name in zip(where, EVENT_COLUMNS, strict=True)
    )
    kind = machine.given()
    return PriceEvent(time.micros(), f"{zone.given()}/{kind}", kind, usd.usd(), place)


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
    events = _changes(entries, str(path), len(products) > 1)
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


def _changes(entries: list[dict[str, Any]], path: str, several: bool) -> Iterator[PriceEvent]:
    for number, entry in enumerate(entries):
        place = SamplePlace(None, f"{HISTORY_KEY}[{number}]")
        zone, kind, time, usd = (Cell(str(entry[key]), key, path, place) for key in _KEYS)
        pool = f"{zone.given()}/{kind.given()}"
        if several:
            pool += f"/{entry.get('ProductDescription', 'unknown')}"
        yield PriceEvent(time.micros(), pool, kind.given(), usd.usd(), place)
