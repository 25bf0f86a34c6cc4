"""The table format as Parquet; it also keeps the assumptions and the exact slot, which CSV cannot."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from slacktide.core.errors import FileError, InputError
from slacktide.market.base import Market, Pool
from slacktide.market.formats.reading.cells import CellRow, in_rows, plain_samples
from slacktide.market.formats.reading.csv_rows import header_problem
from slacktide.market.formats.reading.samples import (
    COLUMNS,
    GPU_COLUMN,
    MAX_ROWS,
    OPTIONAL_COLUMNS,
    STOCK_COLUMN,
    Irregular,
    Samples,
)
from slacktide.market.formats.tables.arrow import arrow_samples, arrow_table
from slacktide.market.pools.moves import Moves
from slacktide.market.series import regular

_MAGIC = b"PAR1"
_NOTE = b"slacktide"


def is_parquet(data: bytes, path: str | Path) -> bool:
    """Whether this is Parquet, by its first bytes or by the name of the file."""
    return data[:4] == _MAGIC or Path(path).suffix == ".parquet"


def read_parquet(data: bytes, path: str, irregular: Irregular, slot_hours: float | None) -> Market:
    """Read a table in Parquet; raises FileError with the row of what is wrong."""
    table = _table(data, path)
    samples = _samples(table, path)
    note = _note(table)
    if slot_hours is None and len(samples.pools) == len(samples):
        slot_hours = note.slot_hours  # single rows do not show how far apart they are
    market = regular(samples, irregular, slot_hours)
    pools = tuple(_exact(pool, note.slot_hours) for pool in market.pools)
    said = (*note.assumptions, *market.assumptions)
    return replace(market, pools=pools, assumptions=said, moves=note.moves)


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
        _check_rows(file.metadata.num_rows, path)
        table = file.read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise FileError(f"must be readable Parquet, got: {reason}", path=path) from None
    problem = header_problem(table.column_names, COLUMNS, OPTIONAL_COLUMNS)
    if problem:
        raise FileError(problem, path=path)
    return table.select([*COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in table.column_names)])


def _check_rows(rows: int, path: str) -> None:
    """Refuse a table before its rows are unpacked: kilobytes of Parquet can hold a billion rows."""
    if rows > MAX_ROWS:
        raise FileError(f"a table must have <= {MAX_ROWS} rows, got {rows}; use longer slots", path=path)


def _samples(table: Any, path: str) -> Samples:
    import pyarrow as pa

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


class _Note(NamedTuple):
    """What we write next to the table's columns."""

    slot_hours: float | None = None
    assumptions: tuple[str, ...] = ()
    moves: Moves = Moves()


def _note(table: Any) -> _Note:
    """Return what was written next to the table's columns; other programs' files have nothing."""
    try:
        found = json.loads((table.schema.metadata or {})[_NOTE])
        moves = found.get("moves", {})
        pairs = tuple((str(first), str(second), float(usd)) for first, second, usd in moves.get("pairs", ()))
        sentences = tuple(map(str, found["assumptions"]))
        return _Note(float(found["slot_hours"]), sentences, Moves(**{**moves, "pairs": pairs}))
    except (AttributeError, KeyError, TypeError, ValueError, InputError):
        return _Note()


def _exact(pool: Pool, written: float | None) -> Pool:
    """Take the slot length that was written where the times, in whole microseconds, are just off it."""
    if written is None or not math.isclose(written, pool.slot_hours, rel_tol=1e-6):
        return pool
    return replace(pool, slot_hours=written)
