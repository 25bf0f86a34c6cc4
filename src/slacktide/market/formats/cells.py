"""CSV row by row, and cells of a table: text with its place, turned into numbers or an error that quotes it.

Slower than Arrow, but it knows the line of every mistake.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import numpy as np

from slacktide.core.errors import FileError, listed, shown, unknown_name
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.formats.samples import (
    ASSUMED_SPOT_GPUS,
    COLUMNS,
    COUNT_COLUMN,
    GPU_COLUMN,
    LEAST_MICROS,
    MAX_SPOT_GPUS,
    MAX_USD_PER_GPU_HOUR,
    MOST_MICROS,
    STOCK_COLUMN,
    SamplePlace,
    Samples,
    micros_of,
)

Placing: TypeAlias = Callable[[int], SamplePlace]
Record: TypeAlias = tuple[int, int, int, int, float, float, int]
"""Number of the row, time, pool, spot GPUs, spot price, on-demand price, on-demand GPUs."""


class CellRow(NamedTuple):
    """The cells of one record and its number: the line it begins on, or its place in the table."""

    number: int
    cells: list[str]


class Cell(NamedTuple):
    """One cell and where it stands, able to complain about itself."""

    text: str
    name: str
    path: str
    place: SamplePlace

    def error(self, must: str) -> FileError:
        """Make the error that says what must hold for this cell and what came."""
        prefix = f"{self.place.words}: " if self.place.words else ""
        return FileError(
            f"{prefix}{self.name} {must}, got {shown(self.text)}", path=self.path, line=self.place.line
        )

    def given(self) -> str:
        """Return the text, which must not be blank."""
        if not self.text.strip():
            raise self.error("must not be empty")
        return self.text.strip()

    def usd(self) -> float:
        """Return an amount of money per hour: finite and not negative."""
        number = self._number()
        if not 0 <= number <= MAX_USD_PER_GPU_HOUR:
            raise self.error(f"must be a number in 0..{MAX_USD_PER_GPU_HOUR:g}")
        return number

    def gpus(self) -> int:
        """Return a count: whole and not negative."""
        number = self._number()
        if not 0 <= number <= MAX_SPOT_GPUS or number != int(number):
            raise self.error("must be a whole number >= 0")
        return int(number)

    def stock(self) -> int:
        """Return a count; blank means as many as anybody wants."""
        return self.gpus() if self.text.strip() else UNLIMITED_GPUS

    def micros(self) -> int:
        """Return a time as microseconds since 1970; without zone it is UTC."""
        try:
            micros = micros_of(datetime.fromisoformat(self.text.strip()))
        except (ValueError, OverflowError):
            micros = MOST_MICROS + 1
        if not LEAST_MICROS <= micros <= MOST_MICROS:
            raise self.error("must be a time such as 2025-10-04T00:10:00Z")
        return micros

    def _number(self) -> float:
        try:
            # float() would also read 1_000, which no other reader of tables does.
            number = float(self.text) if "_" not in self.text else math.nan
        except ValueError:
            raise self.error("must be a number") from None
        if not math.isfinite(number):
            raise self.error("must be a finite number")
        return number


def in_lines(number: int) -> SamplePlace:
    """Say where a row of a text file is."""
    return SamplePlace(number)


def in_rows(number: int) -> SamplePlace:
    """Say where a row of a file without lines is."""
    return SamplePlace(None, f"row {number}")


def plain_samples(names: Sequence[str], rows: Iterable[CellRow], path: str, place: Placing) -> Samples:
    """Read rows one by one into samples; raises FileError with the place of the first mistake."""
    pools: dict[str, int] = {}
    types: dict[str, str] = {}
    records = list(records_of(names, rows, pools, path, place, types))
    if not records:
        raise FileError("a table must have rows below its header, got none", path=path)
    numbers, micros, codes, gpus, spot, on_demand, stock = zip(*records, strict=True)
    return Samples(
        path,
        tuple(pools),
        np.array(codes, dtype=np.int64),
        np.array(micros, dtype=np.int64),
        np.array(gpus, dtype=np.int64),
        np.array(spot, dtype=np.float64),
        np.array(on_demand, dtype=np.float64),
        lambda row: place(numbers[row]),
        tuple(types[pool] for pool in pools) if types else (),
        np.array(stock, dtype=np.int64) if STOCK_COLUMN in names else None,
        COUNT_COLUMN in names,
    )


def records_of(
    names: Sequence[str],
    rows: Iterable[CellRow],
    pools: dict[str, int],
    path: str,
    place: Placing,
    types: dict[str, str] | None = None,
    uncounted_gpus: int = ASSUMED_SPOT_GPUS,
) -> Iterator[Record]:
    """Yield rows as numbers, adding new pools to those known; raises FileError at the first mistake.

    Where there is a column of GPU types, those of the pools are added to `types`. Where there is none of spot
    GPUs, `uncounted_gpus` stand for them.
    """
    where = [names.index(name) if name in names else None for name in COLUMNS]
    pool = names.index("pool")
    gpu = names.index(GPU_COLUMN) if GPU_COLUMN in names else None
    stock = names.index(STOCK_COLUMN) if STOCK_COLUMN in names else None
    types = {} if types is None else types
    for row in rows:
        at = place(row.number)
        _check_cells(row, len(names), path, at)
        there = Cell("" if stock is None else row.cells[stock], STOCK_COLUMN, path, at)
        record = _record(row, where, pools, path, at, there, str(uncounted_gpus))
        if gpu is not None:
            _take_type(Cell(row.cells[gpu], GPU_COLUMN, path, at), row.cells[pool].strip(), types)
        yield record


def _check_cells(row: CellRow, cells: int, path: str, place: SamplePlace) -> None:
    if len(row.cells) != cells:
        raise FileError(
            f"a row must have {cells} cells like the header, got {len(row.cells)}",
            path=path,
            line=place.line,
        )


def _take_type(cell: Cell, pool: str, types: dict[str, str]) -> None:
    known = types.setdefault(pool, cell.text.strip())
    if known != cell.text.strip():
        raise cell.error(f"must be the same in all rows of pool {shown(pool)}, which has {shown(known)}")


def _record(
    row: CellRow,
    where: Sequence[int | None],
    pools: dict[str, int],
    path: str,
    place: SamplePlace,
    stock: Cell,
    uncounted_gpus: str,
) -> Record:
    time, pool, gpus, spot, on_demand = (
        Cell(uncounted_gpus if index is None else row.cells[index], name, path, place)
        for index, name in zip(where, COLUMNS, strict=True)
    )
    code = pools.setdefault(pool.given(), len(pools))
    return row.number, time.micros(), code, gpus.gpus(), spot.usd(), on_demand.usd(), stock.stock()


def rows_of(text: str, path: str, first_line: int = 1) -> Iterator[CellRow]:
    """Yield the records of a CSV text, the header first; blank lines are passed over but counted."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = first_line
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield CellRow(line, cells)
            line = first_line + reader.line_num
    except csv.Error as error:
        raise FileError(f"must be well-formed CSV, got: {error}", path=path, line=line) from None


def header_of(
    rows: Iterator[CellRow], wanted: Sequence[str], path: str, optional: Sequence[str] = ()
) -> list[str]:
    """Take the header and return its names; raises FileError unless each wanted one is there once."""
    header = next(rows, None)
    if header is None:
        raise FileError("a table must have a header, got no text", path=path)
    names = [cell.strip() for cell in header.cells]
    problem = header_problem(names, wanted, optional)
    if problem:
        raise FileError(problem, path=path, line=header.number)
    return names


def header_problem(names: Sequence[str], wanted: Sequence[str], optional: Sequence[str] = ()) -> str | None:
    """Say what is wrong with the names of columns: unknown, missing or twice; None if nothing."""
    known = [*wanted, *optional]
    for name in names:
        if name not in known:
            return unknown_name("a column", name, known)
    missing = [name for name in wanted if name not in names]
    if missing:
        return f"column {shown(missing[0])} must exist, got only: {listed(names)}"
    twice = [name for name in known if names.count(name) > 1]
    return f"a column must come once, got {shown(twice[0])} twice" if twice else None
