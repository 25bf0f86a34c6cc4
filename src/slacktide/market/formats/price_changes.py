"""Read price changes as clouds publish them: prices per machine, without counts of spot GPUs.

Two forms are read: CSV (`instance_type, zone_name, ts_utc, spot_usd_h`, one change a line), and what
`aws ec2 describe-spot-price-history` prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from slacktide.core.errors import FileError, InputError
from slacktide.core.files import utf8_text
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.base import Market
from slacktide.market.formats.default_prices import AWS_LIST, MachineType, gpu_of, instance
from slacktide.market.formats.market_bytes import json_object, kind_of
from slacktide.market.formats.samples import (
    ASSUMED_SPOT_GPUS,
    COUNT_COLUMN,
    GPU_COLUMN,
    Cell,
    CellRow,
    Record,
    SamplePlace,
    cells_of,
    header_of,
    rows_of,
    samples_of,
)
from slacktide.market.series import from_events
from slacktide.market.spec import ReadOptions

EVENT_SLOT_HOURS = 0.5  # slot length of a feed when none is requested; such prices move every few hours


class PriceEvent(NamedTuple):
    """A new spot price of a machine type in a zone, in USD per machine-hour."""

    micros: int
    pool: str
    instance_type: str
    usd_per_hour: float
    place: SamplePlace


def _event_market(events: Iterable[PriceEvent], path: str, options: ReadOptions) -> Market:
    """Turn price changes into a market; its assumptions say what the feed did not."""
    rows = list(events)
    if not rows:
        raise FileError("a price history must have prices, got none", path=path)
    options.refuse("a price history", ("spot_usd",))
    machines: dict[str, MachineType] = {}
    for row in rows:
        if row.instance_type not in machines:
            try:
                machines[row.instance_type] = instance(
                    row.instance_type, options.gpus_per_instance, options.on_demand_usd
                )
            except InputError as error:
                raise row.place.error(str(error), path) from None
    gpus = ASSUMED_SPOT_GPUS if options.spot_gpus is None else options.spot_gpus
    slot_hours = EVENT_SLOT_HOURS if options.slot_hours is None else options.slot_hours
    records = list[Record]()
    for number, row in enumerate(rows):
        machine, gpu = machines[row.instance_type], gpu_of(row.instance_type)
        usd, on_demand_usd = row.usd_per_hour / machine.gpus, machine.on_demand_usd_per_gpu_hour
        records.append(Record(number, row.micros, row.pool, gpus, usd, on_demand_usd, UNLIMITED_GPUS, gpu))
    samples = samples_of(records, (COUNT_COLUMN, GPU_COLUMN), path, lambda number: rows[number].place)
    market = from_events(samples, options, slot_hours)
    return replace(market, assumptions=_sentences(machines, gpus, options), uncounted=tuple(market))


def _sentences(machines: dict[str, MachineType], gpus: int, options: ReadOptions) -> tuple[str, ...]:
    origin = "as given" if options.on_demand_usd is not None else AWS_LIST
    return (
        f"The file has prices only: {gpus} spot GPUs are assumed to be available at all times.",
        *(
            f"{name} has {machine.gpus} GPU{'s'[: machine.gpus > 1]} and costs "
            f"{machine.on_demand_usd_per_gpu_hour:.4g} USD per GPU-hour on demand ({origin})."
            for name, machine in sorted(machines.items())
        ),
    )


EVENT_COLUMNS = ("instance_type", "zone_name", "ts_utc", "spot_usd_h")


def read_price_events(path: str, data: bytes, options: ReadOptions) -> Market:
    """Read price changes in CSV; raises FileError with the line of what is wrong."""
    rows = rows_of(utf8_text(data, path), path)
    names = header_of(rows, EVENT_COLUMNS, path)
    return _event_market((_event(row, names, path) for row in rows), path, options)


def _event(row: CellRow, names: Sequence[str], path: str) -> PriceEvent:
    place = SamplePlace(row.number)
    cells = cells_of(row, names, path, place)
    machine, zone, time, usd = (cells[name] for name in EVENT_COLUMNS)
    kind = machine.given()
    return PriceEvent(time.micros(), f"{zone.given()}/{kind}", kind, usd.usd(), place)


HISTORY_KEY = "SpotPriceHistory"
_KEYS = ("AvailabilityZone", "InstanceType", "Timestamp", "SpotPrice")


def read_aws_history(path: str, data: bytes, options: ReadOptions) -> Market:
    """Read a price history; a pool is `zone/type`, and `zone/type/product` where there are several.

    Raises FileError with the entry of what is wrong.
    """
    entries = _entries(json_object(data, path), path)
    products = {str(entry.get("ProductDescription", "")) for entry in entries}
    return _event_market(_changes(entries, path, len(products) > 1), path, options)


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
