"""Our own format: a table of quotes as CSV, CSV.gz or Parquet, read fast and written back exactly.

Columns, in any order: `time_utc, pool, spot_gpus, spot_usd_per_gpu_hour, on_demand_usd_per_gpu_hour`, and
perhaps `gpu`, the GPU type of the pool, and `on_demand_gpus`, how many GPUs can be had on demand. A table in
CSV without `spot_gpus` has prices only, and what is assumed instead is said. One that is kept by `market
follow` has notes next to it, and may end in a row that is not whole.
CSV is read by Arrow; whatever Arrow or a check of its columns balks at is read again row by row,
which accepts what only looked odd and finds the line of what is wrong.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.core.files import write_whole
from slacktide.market.availability import nothing_seen
from slacktide.market.base import Market, Pool
from slacktide.market.formats.market_bytes import NO_NOTES, as_text, packed, read_notes
from slacktide.market.formats.parquet import (
    arrow_samples,
    arrow_table,
    is_parquet,
    parquet_bytes,
    read_parquet,
)
from slacktide.market.formats.samples import (
    COUNT_COLUMN,
    GPU_COLUMN,
    OPTIONAL_COLUMNS,
    PRICE_COLUMNS,
    STOCK_COLUMN,
    SamplePlace,
    Samples,
    header_of,
    is_header,
    plain_samples,
    records_of,
    rows_of,
)
from slacktide.market.series import regular
from slacktide.market.spec import ReadOptions

_PIECE_BYTES = 1 << 20


def read_table(path: str, data: bytes, options: ReadOptions) -> Market:
    """Read a table in CSV, CSV.gz or Parquet; raises FileError with the line of what is wrong."""
    if is_parquet(data, path):
        return _from_parquet(data, path, options)
    notes = read_notes(path)
    # What a follower writes has notes, and may end in a row that is still being written.
    samples = csv_samples(data if notes is None else data[: data.rfind(b"\n") + 1], path)
    notes = notes or NO_NOTES
    if samples.counted:
        market = regular(samples, options, notes.slot_hours)
        return replace(market, assumptions=(*notes.notes, *market.assumptions))
    samples = replace(samples, spot_gpus=np.full(len(samples), notes.spot_gpus))
    market = regular(samples, options, notes.slot_hours)
    assumptions = (*notes.notes, nothing_seen(notes.spot_gpus), *market.assumptions)
    return replace(market, assumptions=assumptions, uncounted=tuple(market))


def _from_parquet(data: bytes, path: str, options: ReadOptions) -> Market:
    """Return the market of a table in Parquet, with the assumptions and moves that were written with it."""
    samples, note = read_parquet(data, path)
    if options.slot_hours is None and len(samples.pools) == len(samples):
        # Single rows do not show how far apart they are.
        options = replace(options, slot_hours=note.slot_hours)
    market = regular(samples, options)
    pools = tuple(_exact(pool, note.slot_hours) for pool in market.pools)
    assumptions = (*note.assumptions, *market.assumptions)
    return replace(market, pools=pools, assumptions=assumptions, moves=note.moves)


def _exact(pool: Pool, written: float | None) -> Pool:
    """Take the slot length that was written where the times, in whole microseconds, are just off it."""
    if written is None or not math.isclose(written, pool.slot_hours, rel_tol=1e-6):
        return pool
    return replace(pool, slot_hours=written)


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
    return plain_samples(header, rows, path, SamplePlace)


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
            deque(records_of(header, rows, {}, {}, path, SamplePlace), maxlen=0)
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
    return SamplePlace(next(islice(rows, row + 1, None)).number)


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
