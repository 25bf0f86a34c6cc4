"""Samples: the rows of a market file as checked numbers, in the file's order, and where each row is.

Rows of text become samples one by one: slower than Arrow, but with the line of every mistake. Each cell knows
its place, and converts itself to a number or raises an error that quotes it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import FileError, listed, shown, unknown_name
from slacktide.core.quotes import UNLIMITED_GPUS

COLUMNS = ("time_utc", "pool", "spot_gpus", "spot_usd_per_gpu_hour", "on_demand_usd_per_gpu_hour")
"""The columns of our own table format."""
GPU_COLUMN = "gpu"
"""An optional column: the GPU type of the pool, the same in all its rows."""

STOCK_COLUMN = "on_demand_gpus"  # optional: how many GPUs are available on demand; blank means no limit
OPTIONAL_COLUMNS = (GPU_COLUMN, STOCK_COLUMN)
COUNT_COLUMN = "spot_gpus"
"""A CSV table may leave this column out, as tables of live prices do: no source counts spot GPUs."""
PRICE_COLUMNS = tuple(name for name in COLUMNS if name != COUNT_COLUMN)
ASSUMED_SPOT_GPUS = 16  # spot GPUs that are assumed where no source says how many there are

MICROS_PER_HOUR = 3_600_000_000
MAX_ROWS = 10_000_000  # the most rows of a table that are read
MAX_SPOT_GPUS = 10**9
MAX_USD_PER_GPU_HOUR = 1e9  # greater numbers are mistakes, and could overflow sums

_UNIX = datetime(1970, 1, 1, tzinfo=UTC)

LEAST_MICROS, MOST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds since 1970 when the year 1 begins and when the year 9999 ends: Python has no other times."""


class SamplePlace(NamedTuple):
    """Where a sample stands in its file: a line, or words where a file has no lines."""

    line: int | None
    words: str = ""

    def error(self, message: str, path: str) -> FileError:
        """Make the error that names the file and this place in it."""
        prefix = f"{self.words}: " if self.words else ""
        return FileError(f"{prefix}{message}", path=path, line=self.line)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """What a file says about its pools, row by row in the file's order; numbers are already checked."""

    path: str
    pools: tuple[str, ...]
    pool: Ints  # index into `pools`
    micros: Ints  # microseconds since 1970, UTC
    spot_gpus: Ints
    spot_usd_per_gpu_hour: Floats
    on_demand_usd_per_gpu_hour: Floats
    place: Callable[[int], SamplePlace]
    """Finds a row in the file; may be slow, because it is only called when something is wrong."""
    gpu_types: tuple[str, ...] = ()
    """The GPU type of each pool, empty if unknown; an empty tuple if the file has no such column."""
    on_demand_gpus: Ints | None = None  # on-demand GPUs available; None if the file does not say
    counted: bool = True
    """Whether the file says how many spot GPUs there are; if not, `spot_gpus` is assumed."""

    def __len__(self) -> int:
        return len(self.micros)

    def gpu(self, row: int) -> str:
        """Return the GPU type of the pool of a row; empty where it is not known."""
        return self.gpu_types[self.pool[row]] if self.gpu_types else ""

    def error(self, row: int, message: str) -> FileError:
        """Make the error that names the file, the line and the pool of a row."""
        pool = self.pools[self.pool[row]]
        return self.place(row).error(f"pool {shown(pool)}: {message}", self.path)


def first_line(data: bytes) -> list[str]:
    """Return the cells of the first line of a file, which may not even be text."""
    line = data.partition(b"\n")[0].decode("utf-8-sig", errors="replace")
    return [name.strip() for name in line.split(",")]


def is_header(names: Sequence[str]) -> bool:
    """Whether these are the columns of a table, in any order, each once."""
    return header_problem(names, PRICE_COLUMNS, (*OPTIONAL_COLUMNS, COUNT_COLUMN)) is None


def micros_of(time: datetime) -> int:
    """Return microseconds since 1970; a time without zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _UNIX) // timedelta(microseconds=1)


def time_of(micros: int) -> datetime:
    """Return the time of a number of microseconds since 1970, in UTC."""
    return _UNIX + timedelta(microseconds=int(micros))


def stamp(micros: int) -> str:
    """Write a time as in our files: `2025-10-04T00:10:00Z`."""
    return time_of(micros).isoformat().replace("+00:00", "Z")


class CellRow(NamedTuple):
    """The cells of one record and its number: the line it begins on, or its place in the table."""

    number: int
    cells: list[str]


class Cell(NamedTuple):
    """One cell and its place in the file, which its errors name."""

    text: str
    name: str
    path: str
    place: SamplePlace

    def error(self, must: str) -> FileError:
        """Make the error that says what must hold for this cell and quotes it."""
        return self.place.error(f"{self.name} {must}, got {shown(self.text)}", self.path)

    def given(self) -> str:
        """Return the text, which must not be blank."""
        if not self.text.strip():
            raise self.error("must not be empty")
        return self.text.strip()

    def usd(self) -> float:
        """Return an amount of money per hour: finite and not negative."""
        number = self.number()
        if not 0 <= number <= MAX_USD_PER_GPU_HOUR:
            raise self.error(f"must be a number in 0..{MAX_USD_PER_GPU_HOUR:g}")
        return number

    def gpus(self) -> int:
        """Return a count: whole and not negative."""
        number = self.number()
        if not 0 <= number <= MAX_SPOT_GPUS or number != int(number):
            raise self.error("must be a whole number >= 0")
        return int(number)

    def stock(self) -> int:
        """Return a count; blank means unlimited."""
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

    def number(self) -> float:
        """Return a finite number."""
        try:
            # float() would also read 1_000, which no other reader of tables does.
            number = float(self.text) if "_" not in self.text else math.nan
        except ValueError:
            raise self.error("must be a number") from None
        if not math.isfinite(number):
            raise self.error("must be a finite number")
        return number


def cells_of(row: CellRow, names: Sequence[str], path: str, place: SamplePlace) -> dict[str, Cell]:
    """Return the cells of a row by column; raises FileError unless there is one for each."""
    if len(row.cells) != len(names):
        raise place.error(f"a row must have {len(names)} cells like the header, got {len(row.cells)}", path)
    return {name: Cell(text, name, path, place) for name, text in zip(names, row.cells, strict=True)}


class Record(NamedTuple):
    """A row of a table as checked numbers."""

    number: int
    micros: int
    pool: str
    spot_gpus: int
    spot_usd_per_gpu_hour: float
    on_demand_usd_per_gpu_hour: float
    on_demand_gpus: int
    gpu: str


def plain_samples(
    names: Sequence[str], rows: Iterable[CellRow], path: str, place: Callable[[int], SamplePlace]
) -> Samples:
    """Read rows one by one into samples; raises FileError with the place of the first mistake."""
    records = list(records_of(names, rows, path, place))
    if not records:
        raise FileError("a table must have rows below its header, got none", path=path)
    return samples_of(records, names, path, place)


def samples_of(
    records: Sequence[Record], names: Sequence[str], path: str, place: Callable[[int], SamplePlace]
) -> Samples:
    """Make samples of the rows of a file with these columns; `place` finds a row by its number."""
    numbers, micros, pools, gpus, spot, on_demand, stock, _ = zip(*records, strict=True)
    types = {record.pool: record.gpu for record in records}
    codes = {pool: code for code, pool in enumerate(types)}
    return Samples(
        path,
        tuple(types),
        np.array([codes[pool] for pool in pools], dtype=np.int64),
        np.array(micros, dtype=np.int64),
        np.array(gpus, dtype=np.int64),
        np.array(spot, dtype=np.float64),
        np.array(on_demand, dtype=np.float64),
        lambda row: place(numbers[row]),
        tuple(types.values()) if GPU_COLUMN in names else (),
        np.array(stock, dtype=np.int64) if STOCK_COLUMN in names else None,
        COUNT_COLUMN in names,
    )


def records_of(
    names: Sequence[str],
    rows: Iterable[CellRow],
    path: str,
    place: Callable[[int], SamplePlace],
    uncounted_gpus: int = ASSUMED_SPOT_GPUS,
) -> Iterator[Record]:
    """Yield rows as numbers; raises FileError at the first mistake.

    If there is no column of spot GPUs, every row has `uncounted_gpus`.
    """
    types: dict[str, str] = {}
    for row in rows:
        at = place(row.number)
        cells = cells_of(row, names, path, at)
        record = Record(
            row.number,
            cells["time_utc"].micros(),
            cells["pool"].given(),
            cells[COUNT_COLUMN].gpus() if COUNT_COLUMN in cells else uncounted_gpus,
            cells["spot_usd_per_gpu_hour"].usd(),
            cells["on_demand_usd_per_gpu_hour"].usd(),
            cells[STOCK_COLUMN].stock() if STOCK_COLUMN in cells else UNLIMITED_GPUS,
            cells[GPU_COLUMN].text.strip() if GPU_COLUMN in cells else "",
        )
        gpu = types.setdefault(record.pool, record.gpu)
        if gpu != record.gpu:
            raise cells[GPU_COLUMN].error(
                f"must be the same in all rows of pool {shown(record.pool)}, which has {shown(gpu)}"
            )
        yield record


def rows_of(text: str, path: str, first_line: int = 1) -> Iterator[CellRow]:
    """Yield the records of a CSV text, the header first; blank lines are skipped but counted."""
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
