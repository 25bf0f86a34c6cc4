"""The table format as Parquet; it also keeps the assumptions and the exact slot, which CSV cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import FileError, InputError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.base import Market, Moves, Pool
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
    STOCK_COLUMN,
    CellRow,
    SamplePlace,
    Samples,
    header_problem,
    micros_of,
    plain_samples,
)


def arrow_samples(table: Any, path: str, place: Callable[[int], SamplePlace]) -> Samples | None:
    """Return what an Arrow table in our columns says; None if any number cannot be, or nothing is there."""
    import pyarrow as pa

    whole = table.drop_columns([STOCK_COLUMN]) if STOCK_COLUMN in table.column_names else table
    if len(table) == 0 or any(column.null_count for column in whole.columns):
        return None
    pool = table["pool"].combine_chunks()
    names = pool.dictionary.to_pylist()
    spot, on_demand = (table[name].to_numpy() for name in COLUMNS[3:])
    counted = COUNT_COLUMN in table.column_names
    gpus = table[COUNT_COLUMN].to_numpy() if counted else np.full(len(table), ASSUMED_SPOT_GPUS)
    if not (all(name and name == name.strip() for name in names) and _possible(gpus, spot, on_demand)):
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
    """Return how many GPUs can be had on demand, unlimited where the cell is blank; None if any is odd.

    The column holds numbers, or encoded texts.
    """
    if not hasattr(column, "dictionary"):
        counts: Ints = column.fill_null(UNLIMITED_GPUS).to_numpy(zero_copy_only=False).astype(np.int64)
        return counts if counts.min() >= 0 and counts.max() <= UNLIMITED_GPUS else None
    texts = column.dictionary.to_pylist()
    if not all(text == "" or (text.isascii() and text.isdigit() and len(text) < 10) for text in texts):
        return None
    known = np.array([int(text) if text else UNLIMITED_GPUS for text in texts], dtype=np.int64)
    return np.asarray(known[column.indices.to_numpy()])


def _gpu_types(table: Any, codes: Ints, pools: int) -> tuple[str, ...] | None:
    """Return the GPU type of each pool; none where there is no such column, None if it is odd."""
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


def _possible(gpus: Ints, spot: Floats, on_demand: Floats) -> bool:
    # The comparisons are false for NaN, so they also refuse what is not a number.
    prices = (bool(((usd >= 0) & (usd <= MAX_USD_PER_GPU_HOUR)).all()) for usd in (spot, on_demand))
    return bool(gpus.min() >= 0 and gpus.max() <= MAX_SPOT_GPUS) and all(prices)


def arrow_table(market: Market) -> Any:
    """Return a market as an Arrow table in our columns, pool after pool.

    GPU types are there where any is known, and on-demand GPUs where any pool's are limited.
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
    """Return when every slot begins, to the microsecond."""
    nanos = np.arange(len(pool)) * round(pool.slot_hours * MICROS_PER_HOUR * 1000)
    return np.asarray(micros_of(pool.start) + (nanos + 500) // 1000, dtype=np.int64)


_MAGIC = b"PAR1"
_NOTE = b"slacktide"


@dataclass(frozen=True, slots=True)
class ParquetNote:
    """What we write next to the table's columns."""

    slot_hours: float | None = None
    assumptions: tuple[str, ...] = ()
    moves: Moves = field(default_factory=Moves)


def is_parquet(data: bytes, path: str | Path) -> bool:
    """Whether this is Parquet, by its first bytes or by the name of the file."""
    return data[:4] == _MAGIC or Path(path).suffix == ".parquet"


def read_parquet(data: bytes, path: str) -> tuple[Samples, ParquetNote]:
    """Read a table in Parquet and its note; raises FileError with the row of what is wrong."""
    table = _table(data, path)
    return _samples(table, path), _note(table)


def parquet_bytes(market: Market) -> bytes:
    """Return a market as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    note: dict[str, Any] = {
        "slot_hours": market.pools[0].slot_hours,
        "assumptions": list(market.assumptions),
    }
    if market.moves != Moves():
        note["moves"] = asdict(market.moves)
    sink = pa.BufferOutputStream()
    parquet.write_table(arrow_table(market).replace_schema_metadata({_NOTE: json.dumps(note)}), sink)
    return bytes(sink.getvalue().to_pybytes())


def _table(data: bytes, path: str) -> Any:
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


def _samples(table: Any, path: str) -> Samples:
    import pyarrow as pa

    def in_rows(number: int) -> SamplePlace:
        return SamplePlace(None, f"row {number}")

    try:
        fast = arrow_samples(_cast(table), path, lambda row: in_rows(row + 1))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeDecodeError):
        fast = None  # not our types: value by value we accept them, or say what is wrong
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


def _rows(table: Any) -> list[CellRow]:
    columns = [_values(column) for column in table.columns]
    records = zip(*columns, strict=True)
    return [
        CellRow(number, ["" if value is None else str(value) for value in record])
        for number, record in enumerate(records, start=1)
    ]


def _values(column: Any) -> list[Any]:
    """Return a column's values; as text where they are times that Python does not have."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [value.decode(errors="replace") for value in column.cast(pa.binary()).to_pylist()]
    except (OverflowError, ValueError):
        return list(column.cast(pa.string()).to_pylist())


def _note(table: Any) -> ParquetNote:
    """Return what was written next to the table's columns; other programs' files have nothing."""
    try:
        # Not msgspec's own reader of JSON: a speed of moves may be Infinity, which that refuses.
        return msgspec.convert(json.loads((table.schema.metadata or {})[_NOTE]), ParquetNote)
    except (KeyError, ValueError, msgspec.ValidationError, InputError):
        return ParquetNote()
