"""Our own format: a table of quotes as CSV, CSV.gz or Parquet, read fast and written back exactly.

Columns, in any order: `time_utc, pool, spot_gpus, spot_usd_per_gpu_hour, on_demand_usd_per_gpu_hour`, and
optionally `gpu`, the GPU type of the pool, and `on_demand_gpus`, how many GPUs are available on demand. A CSV
table without `spot_gpus` has prices only, and its market says what is assumed instead. One that `market
follow` writes has notes next to it, and may end in an incomplete row.
Parquet also keeps the assumptions and the exact slot length, which CSV cannot.
CSV is read by Arrow; what Arrow or a check of its columns refuses is read again row by row, which accepts
unusual but valid text and finds the line of a mistake.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from math import isclose
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import FileError, InputError
from slacktide.core.files import utf8_text, write_whole
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.availability import nothing_seen
from slacktide.market.base import Market, Moves, Pool
from slacktide.market.formats.market_bytes import NO_NOTES, packed, read_notes
from slacktide.market.formats.samples import (
    ASSUMED_SPOT_GPUS,
    COLUMNS,
    COUNT_COLUMN,
    GPU_COLUMN,
    LEAST_MICROS,
    MAX_ROWS,
    MAX_SPOT_GPUS,
    MAX_USD_PER_GPU_HOUR,
    MICROS_PER_HOUR,
    MOST_MICROS,
    OPTIONAL_COLUMNS,
    PRICE_COLUMNS,
    STOCK_COLUMN,
    CellRow,
    SamplePlace,
    Samples,
    first_line,
    header_of,
    header_problem,
    is_header,
    micros_of,
    plain_samples,
    records_of,
    rows_of,
)
from slacktide.market.series import regular
from slacktide.market.spec import ReadOptions

_PIECE_BYTES = 1 << 20
_MAGIC = b"PAR1"  # the first bytes of a Parquet file
_NOTE = b"slacktide"


@dataclass(frozen=True, slots=True)
class _ParquetNote:
    """What we write into the metadata of a Parquet file."""

    slot_hours: float | None = None
    assumptions: tuple[str, ...] = ()
    moves: Moves = field(default_factory=Moves)


def read_table(path: str, data: bytes, options: ReadOptions) -> Market:
    """Read a table in CSV, CSV.gz or Parquet; raises FileError with the line of what is wrong."""
    if data[:4] == _MAGIC or Path(path).suffix == ".parquet":
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
    table = _parquet(data, path)
    samples, note = _parquet_samples(table, path), _note(table)
    if options.slot_hours is None and len(samples.pools) == len(samples):
        # Single rows do not show how far apart they are.
        options = replace(options, slot_hours=note.slot_hours)
    market = regular(samples, options)
    pools, written = market.pools, note.slot_hours
    if written is not None:
        # Times are in whole microseconds, so they may be just off the slot length that was written.
        pools = tuple(
            replace(pool, slot_hours=written) if isclose(written, pool.slot_hours, rel_tol=1e-6) else pool
            for pool in pools
        )
    assumptions = (*note.assumptions, *market.assumptions)
    return replace(market, pools=pools, assumptions=assumptions, moves=note.moves)


def write_table(market: Market, path: str | Path) -> None:
    """Write a market as Parquet if the name ends in `.parquet`, else as CSV; for `.gz` with gzip."""
    if Path(path).suffix == ".parquet":
        write_whole(path, _parquet_bytes(market))
    else:
        write_whole(path, packed(_csv_bytes(market), path))


def csv_samples(data: bytes, path: str) -> Samples:
    """Read the rows of a CSV table, with Arrow if nothing about it is unusual."""
    fast = _fast_samples(data, path)
    if fast is None:
        _find_mistake(data, path)
    return fast or rows_samples(data, path)


def rows_samples(data: bytes, path: str) -> Samples:
    """Read the rows of a CSV table one by one: the definition that the fast way must agree with."""
    rows = rows_of(utf8_text(data, path), path)
    header = header_of(rows, PRICE_COLUMNS, path, (*OPTIONAL_COLUMNS, COUNT_COLUMN))
    return plain_samples(header, rows, path, SamplePlace)


def _find_mistake(data: bytes, path: str) -> None:
    """Raise FileError for the first broken row, reading row by row only the pieces that Arrow refuses."""
    text = utf8_text(data, path)
    header, start, line = first_line(data), data.find(b"\n") + 1, 2
    if not start or not is_header(header) or '"' in text:
        return  # a mistake in the header is found at once, and quotes may span pieces
    while start < len(data):
        end = data.find(b"\n", start + _PIECE_BYTES) + 1 or len(data)
        piece = data[start:end]
        if _fast_rows(piece, header, 0, path) is None:
            rows = rows_of(utf8_text(piece, path), path, line)
            deque(records_of(header, rows, path, SamplePlace), maxlen=0)
        line, start = line + piece.count(b"\n"), end


def _fast_samples(data: bytes, path: str) -> Samples | None:
    """Read with Arrow; None if anything about the table is unusual."""
    header, offset = first_line(data), data.find(b"\n") + 1
    return _fast_rows(data, header, offset, path) if offset and is_header(header) else None


def _fast_rows(data: bytes, header: list[str], offset: int, path: str) -> Samples | None:
    import pyarrow as pa

    for zone in ("UTC", None):
        try:
            table = _arrow(data, header, offset, zone)
            return _arrow_samples(table, path, lambda row: _line_of(data, path, row))
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            continue
    return None


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
    rows = rows_of(utf8_text(data, path), path)
    return SamplePlace(next(islice(rows, row + 1, None)).number)


def _csv_bytes(market: Market) -> bytes:
    import pyarrow as pa
    from pyarrow import csv

    table = _arrow_table(market)
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


def _arrow_samples(table: Any, path: str, place: Callable[[int], SamplePlace]) -> Samples | None:
    """Return the samples of an Arrow table in our columns; None if it is empty or any value is impossible."""
    import pyarrow as pa

    whole = table.drop_columns([STOCK_COLUMN]) if STOCK_COLUMN in table.column_names else table
    if len(table) == 0 or any(column.null_count for column in whole.columns):
        return None
    pool = table["pool"].combine_chunks()
    names = pool.dictionary.to_pylist()
    spot, on_demand = (table[name].to_numpy() for name in COLUMNS[3:])
    counted = COUNT_COLUMN in table.column_names
    gpus = table[COUNT_COLUMN].to_numpy() if counted else np.full(len(table), ASSUMED_SPOT_GPUS)
    prices = (_within(usd, MAX_USD_PER_GPU_HOUR) for usd in (spot, on_demand))
    if not (all(name and name == name.strip() for name in names) and _within(gpus, MAX_SPOT_GPUS)):
        return None
    if not all(prices):
        return None
    codes = pool.indices.to_numpy().astype(np.int64)
    micros = table["time_utc"].cast(pa.int64()).to_numpy()
    if micros.min() < LEAST_MICROS or micros.max() > MOST_MICROS:
        return None
    types = _gpu_types(table, codes, len(names))
    if types is None:
        return None
    stock = None
    if STOCK_COLUMN in table.column_names:
        stock = _stock(table[STOCK_COLUMN].combine_chunks())
        if stock is None:
            return None
    return Samples(path, tuple(names), codes, micros, gpus, spot, on_demand, place, types, stock, counted)


def _stock(column: Any) -> Ints | None:
    """Return the on-demand GPUs of each row, unlimited if the cell is blank; None if any is not a count.

    The column holds numbers, or dictionary-encoded text.
    """
    if not hasattr(column, "dictionary"):
        counts: Ints = column.fill_null(UNLIMITED_GPUS).to_numpy(zero_copy_only=False).astype(np.int64)
        return counts if _within(counts, UNLIMITED_GPUS) else None
    texts = column.dictionary.to_pylist()
    if not all(text == "" or (text.isascii() and text.isdigit() and len(text) < 10) for text in texts):
        return None
    known = np.array([int(text) if text else UNLIMITED_GPUS for text in texts], dtype=np.int64)
    return np.asarray(known[column.indices.to_numpy()])


def _gpu_types(table: Any, codes: Ints, pools: int) -> tuple[str, ...] | None:
    """Return the GPU type of each pool, empty without such a column; None if a pool has several or blanks."""
    if GPU_COLUMN not in table.column_names:
        return ()
    column = table[GPU_COLUMN].combine_chunks()
    names, kinds = column.dictionary.to_pylist(), column.indices.to_numpy()
    of_pool = np.zeros(pools, dtype=np.int64)
    of_pool[codes] = kinds
    same = bool((of_pool[codes] == kinds).all())
    if not (same and all(name == name.strip() for name in names)):
        return None
    return tuple(names[kind] for kind in of_pool)


def _within(numbers: Ints | Floats, most: float) -> bool:
    # The comparisons are false for NaN, so they also refuse what is not a number.
    return bool(((numbers >= 0) & (numbers <= most)).all())


def _arrow_table(market: Market) -> Any:
    """Return a market as an Arrow table in our columns, pool after pool.

    It has GPU types if any is known, and on-demand GPUs if any pool's are limited.
    """
    import pyarrow as pa

    def joined(name: str) -> Any:
        return pa.array(np.concatenate([getattr(pool, name) for pool in market.pools]))

    times = pa.array(np.concatenate([_times(pool) for pool in market.pools]))
    counts = [len(pool) for pool in market.pools]
    codes = pa.array(np.repeat(np.arange(len(market), dtype=np.int32), counts))
    names = pa.DictionaryArray.from_arrays(codes, pa.array(list(market)))
    columns = [times.cast(pa.timestamp("us", tz="UTC")), names, *map(joined, COLUMNS[2:])]
    table = pa.table(columns, names=list(COLUMNS))
    types = [pool.gpu for pool in market.pools]
    if any(types):
        table = table.append_column(GPU_COLUMN, pa.DictionaryArray.from_arrays(codes, pa.array(types)))
    if any(pool.on_demand_gpus is not None for pool in market.pools):
        stock = np.concatenate([pool.stock(0, len(pool)) for pool in market.pools])
        table = table.append_column(STOCK_COLUMN, pa.array(stock, mask=stock >= UNLIMITED_GPUS))
    return table


def _times(pool: Pool) -> Ints:
    nanos = np.arange(len(pool)) * round(pool.slot_hours * MICROS_PER_HOUR * 1000)
    return np.asarray(micros_of(pool.start) + (nanos + 500) // 1000, dtype=np.int64)


def _parquet_bytes(market: Market) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    note: dict[str, Any] = {
        "slot_hours": market.pools[0].slot_hours,
        "assumptions": list(market.assumptions),
    }
    if market.moves != Moves():
        note["moves"] = asdict(market.moves)
    sink = pa.BufferOutputStream()
    parquet.write_table(_arrow_table(market).replace_schema_metadata({_NOTE: json.dumps(note)}), sink)
    return bytes(sink.getvalue().to_pybytes())


def _parquet(data: bytes, path: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        # Before its rows are unpacked: kilobytes of Parquet can hold a billion rows.
        if (rows := file.metadata.num_rows) > MAX_ROWS:
            raise FileError(f"a table must have <= {MAX_ROWS} rows, got {rows}; use longer slots", path=path)
        table = file.read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise FileError(f"must be readable Parquet, got: {reason}", path=path) from None
    problem = header_problem(table.column_names, COLUMNS, OPTIONAL_COLUMNS)
    if problem:
        raise FileError(problem, path=path)
    return table.select([*COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in table.column_names)])


def _parquet_samples(table: Any, path: str) -> Samples:
    import pyarrow as pa

    def in_rows(number: int) -> SamplePlace:
        return SamplePlace(None, f"row {number}")

    try:
        fast = _arrow_samples(_cast(table), path, lambda row: in_rows(row + 1))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeDecodeError):
        fast = None  # not our column types: read value by value, which accepts them or finds the mistake
    return fast or plain_samples(table.column_names, _rows(table), path, in_rows)


def _cast(table: Any) -> Any:
    import pyarrow as pa

    zone = getattr(table.schema.field("time_utc").type, "tz", None)
    kinds = [pa.timestamp("us", tz=zone), pa.string(), pa.int64(), pa.float64(), pa.float64()]
    types = {**dict(zip(COLUMNS, kinds, strict=True)), GPU_COLUMN: pa.string(), STOCK_COLUMN: pa.int64()}
    named = ((name, table[name].cast(types[name])) for name in table.column_names)
    encoded = {
        name: column.dictionary_encode() if name in ("pool", GPU_COLUMN) else column for name, column in named
    }
    return pa.table(encoded).unify_dictionaries()


def _rows(table: Any) -> Iterator[CellRow]:
    rows = zip(*(_values(column) for column in table.columns), strict=True)
    for number, row in enumerate(rows, start=1):
        yield CellRow(number, ["" if value is None else str(value) for value in row])


def _values(column: Any) -> list[Any]:
    """Return a column's values; as text if Python cannot represent them."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [value.decode(errors="replace") for value in column.cast(pa.binary()).to_pylist()]
    except (OverflowError, ValueError):
        return list(column.cast(pa.string()).to_pylist())


def _note(table: Any) -> _ParquetNote:
    """Return our metadata of a Parquet file; other programs' files have none."""
    try:
        # Not msgspec's own reader of JSON: a speed of moves may be Infinity, which that refuses.
        return msgspec.convert(json.loads((table.schema.metadata or {})[_NOTE]), _ParquetNote)
    except (KeyError, ValueError, msgspec.ValidationError, InputError):
        return _ParquetNote()
