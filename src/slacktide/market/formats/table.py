"""Our own format: a table of quotes as CSV, CSV.gz or Parquet, read fast and written back exactly.

Columns, in any order: `time_utc, pool, spot_gpus, spot_usd_per_gpu_hour, on_demand_usd_per_gpu_hour`, and
perhaps `gpu`, the GPU type of the pool, and `on_demand_gpus`, how many GPUs can be had on demand. A table in
CSV without `spot_gpus` has prices only, and what is assumed instead is said. One that is kept by `market
follow` has notes next to it, and may end in a row that is not whole.
CSV is read by Arrow; whatever Arrow or a check of its columns balks at is read again row by row,
which accepts what only looked odd and finds the line of what is wrong.
"""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.core.files import write_whole
from slacktide.market.availability import nothing_seen
from slacktide.market.base import Market, Pool
from slacktide.market.formats.cells import header_of, in_lines, plain_samples, records_of, rows_of
from slacktide.market.formats.market_bytes import as_text, packed, read_bytes
from slacktide.market.formats.parquet import (
    arrow_samples,
    arrow_table,
    is_parquet,
    parquet_bytes,
    read_parquet,
)
from slacktide.market.formats.samples import (
    ASSUMED_SPOT_GPUS,
    COUNT_COLUMN,
    GPU_COLUMN,
    MAX_SPOT_GPUS,
    OPTIONAL_COLUMNS,
    PRICE_COLUMNS,
    STOCK_COLUMN,
    Irregular,
    SamplePlace,
    Samples,
    is_header,
)
from slacktide.market.series import regular

ENDING = ".notes.json"
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotes:
    """All that the notes of a table say."""

    feed: str = ""
    """The source that is followed, as `aws:p5.48xlarge`."""
    zones: tuple[str, ...] = ()
    slot_hours: float | None = None
    """How far apart rows are meant to be; None: as they are."""
    spot_gpus: int = ASSUMED_SPOT_GPUS
    """Spot GPUs that are assumed where nothing was seen of a pool."""
    notes: tuple[str, ...] = ()
    """What the source does not report, and what is assumed instead."""
    trouble: str = ""
    """What keeps the source from answering, in a sentence; empty when it answered last time."""
    answered_utc: str = ""
    """When it last answered."""


BEFORE = TableNotes()
"""Those of a table that has none."""


def notes_path(path: str | Path) -> Path:
    """Return where the notes of a table are."""
    return Path(f"{path}{ENDING}")


def write_notes(path: str | Path, notes: TableNotes) -> None:
    """Write the notes of a table; raises FileError."""
    write_whole(notes_path(path), (json.dumps(asdict(notes), indent=1) + "\n").encode())


def read_notes(path: str | Path) -> TableNotes | None:
    """Return the notes of a table; None where it has none that can be read."""
    try:
        with notes_path(path).open("rb") as file:
            found = json.loads(file.read(MOST_BYTES))
        return _checked(found)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _checked(found: dict[str, Any]) -> TableNotes:
    """Make notes from what stands in a file; raises ValueError, TypeError or KeyError."""
    slot_hours, spot_gpus = float(found["slot_hours"]), int(found["spot_gpus"])
    if not (math.isfinite(slot_hours) and slot_hours > 0 and 0 <= spot_gpus <= MAX_SPOT_GPUS):
        raise ValueError("not a length of slots or a count")
    return TableNotes(
        feed=str(found["feed"]),
        zones=tuple(map(str, found["zones"])),
        slot_hours=slot_hours,
        spot_gpus=spot_gpus,
        notes=tuple(map(str, found["notes"])),
        trouble=str(found["trouble"]),
        answered_utc=str(found["answered_utc"]),
    )


_PIECE_BYTES = 1 << 20


def read_table(
    path: str | Path,
    *,
    data: bytes | None = None,
    irregular: Irregular | None = None,
    slot_hours: float | None = None,
) -> Market:
    """Read a table in CSV, CSV.gz or Parquet; raises FileError with the line of what is wrong."""
    data = read_bytes(path) if data is None else data
    irregular = irregular or Irregular()
    if is_parquet(data, path):
        return _from_parquet(data, str(path), irregular, slot_hours)
    notes = read_notes(path)
    if notes is None:
        return _counted(csv_samples(data, str(path)), BEFORE, irregular, slot_hours)
    whole = csv_samples(data[: data.rfind(b"\n") + 1], str(path))
    return _counted(whole, notes, irregular, slot_hours)


def _from_parquet(data: bytes, path: str, irregular: Irregular, slot_hours: float | None) -> Market:
    """Return the market of a table in Parquet, with the assumptions and moves that were written with it."""
    samples, note = read_parquet(data, path)
    if slot_hours is None and len(samples.pools) == len(samples):
        slot_hours = note.slot_hours  # single rows do not show how far apart they are
    market = regular(samples, irregular, slot_hours)
    pools = tuple(_exact(pool, note.slot_hours) for pool in market.pools)
    assumptions = (*note.assumptions, *market.assumptions)
    return replace(market, pools=pools, assumptions=assumptions, moves=note.moves)


def _exact(pool: Pool, written: float | None) -> Pool:
    """Take the slot length that was written where the times, in whole microseconds, are just off it."""
    if written is None or not math.isclose(written, pool.slot_hours, rel_tol=1e-6):
        return pool
    return replace(pool, slot_hours=written)


def _counted(samples: Samples, notes: TableNotes, irregular: Irregular, slot_hours: float | None) -> Market:
    """Return the market of a table, with assumed spot GPUs where it does not count them."""
    if not samples.counted:
        samples = replace(samples, spot_gpus=np.full(len(samples), notes.spot_gpus))
    market = regular(samples, irregular, slot_hours, notes.slot_hours)
    sentences = (*notes.notes, *(() if samples.counted else (nothing_seen(notes.spot_gpus),)))
    uncounted = () if samples.counted else tuple(market)
    return replace(market, assumptions=(*sentences, *market.assumptions), uncounted=uncounted)


def write_table(market: Market, path: str | Path) -> None:
    """Write a market as Parquet if the name ends so, else as CSV, packed if it ends in `.gz`."""
    if Path(path).suffix == ".parquet":
        write_whole(path, parquet_bytes(market))
    else:
        write_whole(path, packed(_csv_bytes(market), path))


def csv_samples(data: bytes, path: str) -> Samples:
    """Read the rows of a CSV table, fast if nothing about it is odd."""
    fast = _fast_samples(data, path)
    if fast is not None:
        return fast
    _find_mistake(data, path)
    return rows_samples(data, path)


def rows_samples(data: bytes, path: str) -> Samples:
    """Read the rows of a CSV table one by one: the definition that the fast way must agree with."""
    rows = rows_of(as_text(data, path), path)
    header = header_of(rows, PRICE_COLUMNS, path, (*OPTIONAL_COLUMNS, COUNT_COLUMN))
    return plain_samples(header, rows, path, in_lines)


def _find_mistake(data: bytes, path: str) -> None:
    """Raise FileError for the first broken row, reading row by row only the pieces that Arrow balks at."""
    text = as_text(data, path)
    header, start = _first_line(data)
    if not is_header(header) or '"' in text:
        return  # a mistake in the header is found at once, and quotes may span pieces
    line = 2
    while start < len(data):
        end = data.find(b"\n", start + _PIECE_BYTES) + 1 or len(data)
        piece = data[start:end]
        if _fast_rows(piece, header, 0, path) is None:
            rows = rows_of(as_text(piece, path), path, line)
            deque(records_of(header, rows, {}, path, in_lines), maxlen=0)
        line, start = line + piece.count(b"\n"), end


def _fast_samples(data: bytes, path: str) -> Samples | None:
    """Read with Arrow; None if anything at all is out of the ordinary."""
    header, offset = _first_line(data)
    return _fast_rows(data, header, offset, path) if is_header(header) else None


def _fast_rows(data: bytes, header: list[str], offset: int, path: str) -> Samples | None:
    import pyarrow as pa

    for zone in ("UTC", None):
        try:
            table = _arrow(data, header, offset, zone)
            return arrow_samples(table, path, lambda row: _line_of(data, path, row))
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            continue
    return None


def _first_line(data: bytes) -> tuple[list[str], int]:
    """Return the names in the first line, and where the next one begins."""
    end = data.find(b"\n") + 1
    line = data[:end].decode("utf-8-sig", errors="replace")
    return [name.strip() for name in line.split(",")], end


def _arrow(data: bytes, header: list[str], offset: int, zone: str | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    types = {
        "time_utc": pa.timestamp("us", tz=zone),
        "pool": pa.dictionary(pa.int32(), pa.string()),
        GPU_COLUMN: pa.dictionary(pa.int32(), pa.string()),
        STOCK_COLUMN: pa.dictionary(pa.int32(), pa.string()),  # a cell may be blank
        "spot_gpus": pa.int64(),
        "spot_usd_per_gpu_hour": pa.float64(),
        "on_demand_usd_per_gpu_hour": pa.float64(),
    }
    return csv.read_csv(
        pa.BufferReader(pa.py_buffer(data).slice(offset)),
        read_options=csv.ReadOptions(column_names=header, block_size=8 << 20),
        convert_options=csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
    ).unify_dictionaries()


def _line_of(data: bytes, path: str, row: int) -> SamplePlace:
    """Find the line of a row again, by reading up to it."""
    rows = rows_of(as_text(data, path), path)
    return in_lines(next(islice(rows, row + 1, None)).number)


def _csv_bytes(market: Market) -> bytes:
    import pyarrow as pa
    from pyarrow import csv

    table = arrow_table(market)
    micros = table["time_utc"].cast(pa.int64()).to_numpy()
    times = np.asarray(micros).astype("M8[us]")
    stamps = np.datetime_as_string(times, unit="us" if (micros % 1_000_000).any() else "s", timezone="UTC")
    table = table.set_column(0, "time_utc", pa.array(stamps.tolist()))
    # Arrow's "needed" quotes every text, so quote only when a name has something to protect.
    texts = [text for pool in market.pools for text in (pool.name, pool.gpu)]
    quoting = "needed" if any(set(text) & set(',"\r\n') for text in texts) else "none"
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=False, quoting_style=quoting))
    return (",".join(table.column_names) + "\n").encode() + bytes(sink.getvalue().to_pybytes())
