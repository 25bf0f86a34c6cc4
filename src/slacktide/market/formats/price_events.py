"""Price changes as CSV: `instance_type, zone_name, ts_utc, spot_usd_h`, one change a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slacktide.core.errors import FileError
from slacktide.market.base import Market
from slacktide.market.formats.price_changes import Assumed, PriceEvent, event_market
from slacktide.market.formats.reading.cells import Cell, CellRow, in_lines
from slacktide.market.formats.reading.csv_rows import header_of, rows_of
from slacktide.market.formats.reading.market_bytes import as_text, read_bytes
from slacktide.market.formats.reading.samples import Irregular

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
