"""Reads measured speeds from CSV files: how fast a job ran on how many GPUs, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeAlias

from slacktide.core.errors import FileError, listed, shown, unknown_name
from slacktide.core.speedup import LEAST_RATE, MOST_RATE, is_rate
from slacktide.core.yaml_tree import read_text
from slacktide.market.formats.samples import Cell, CellRow, SamplePlace, cells_of, rows_of

WIDTH_COLUMNS = ("gpus", "n_gpus", "num_gpus", "n_acc", "workers")  # usual names of the column of widths
RATE_COLUMNS = ("throughput", "speedup", "rate")
"""Usual names of columns in which more is faster; any other name that ends in `_per_s` counts, too."""
TIME_COLUMNS = ("seconds", "minutes", "hours", "duration")
"""Usual names of columns in which less is faster; any other name that begins with `time` counts, too."""
REPEAT_COLUMNS = ("run", "repeat", "trial", "seed")  # columns that number the repeats of one measurement
MAX_MEASURED_GPUS = 1_000_000  # more GPUs than any measured job had: a larger width is a mistake
_LISTED = 8


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which rows and columns of a file to read."""

    where: Mapping[str, str] = field(default_factory=dict)
    """Only rows that have these values in these columns."""
    group: tuple[str, ...] = ()  # columns whose values separate one series of measurements from another
    rate: str | None = None  # the column of rates; found by its name if neither this nor `time` is given
    time: str | None = None  # the column of times to finish, which are inverted


class MeasuredSeries(NamedTuple):
    """The measurements of one group."""

    group: Mapping[str, str]
    points: tuple[tuple[float, float], ...]
    """Width and rate in any unit, sorted by width; widths measured more than once are averaged."""


Row: TypeAlias = dict[str, Cell]  # the cells of a record by column


class _Columns(NamedTuple):
    width: str
    speed: str
    inverted: bool


def read_measured(path: str | Path, choice: RowSelection) -> tuple[MeasuredSeries, ...]:
    """Read measured rates, one series for each group; raises FileError with the line of a mistake."""
    place = str(path)
    rows = _rows(read_text(path), place)
    columns = _columns(rows[0], choice, place)
    chosen = _chosen(rows, choice.where, place)

    def key(row: Row) -> tuple[str, ...]:
        return tuple(row[name].text for name in choice.group)

    series = []
    for values, members in groupby(sorted(chosen, key=key), key=key):
        group = list(members)
        _check_alike(group, columns, choice, place)
        rates: dict[int, list[float]] = {}
        for row in group:
            width, rate = _rate(row, columns)
            rates.setdefault(width, []).append(rate)
        points = tuple((float(width), math.fsum(same) / len(same)) for width, same in sorted(rates.items()))
        series.append(MeasuredSeries(dict(zip(choice.group, values, strict=True)), points))
    return tuple(series)


def _rows(text: str, path: str) -> list[Row]:
    records = rows_of(text.removeprefix("\ufeff"), path)
    header = next(records, None)
    if header is None:
        raise FileError("a table must have a header such as 'gpus,throughput', got no text", path=path)
    names = [cell.strip() for cell in header.cells]
    if len(names) == 1 and ";" in names[0]:
        raise FileError("columns must be separated by ',', got ';'", path=path, line=header.number)
    for name in names:
        if names.count(name) > 1:
            message = f"a column must come once, got {shown(name)} twice"
            raise FileError(message, path=path, line=header.number)
    found = []
    for line, cells in records:
        row = CellRow(line, [cell.strip() for cell in cells])
        found.append(cells_of(row, names, path, SamplePlace(line)))
    if not found:
        raise FileError("a table must have rows below its header, got none", path=path)
    return found


def _columns(names: Iterable[str], choice: RowSelection, path: str) -> _Columns:
    known = list(names)
    for name in (*choice.where, *choice.group, choice.rate, choice.time):
        if name is not None and name not in known:
            raise FileError(unknown_name("a column", name, known), path=path, line=1)
    width = _one([name for name in known if name.lower() in WIDTH_COLUMNS], "gpus", known, path)
    if choice.rate is not None or choice.time is not None:
        return _Columns(width, choice.rate or choice.time or "", choice.rate is None)
    rates = [name for name in known if name.lower() in RATE_COLUMNS or name.lower().endswith("_per_s")]
    times = [name for name in known if name.lower() in TIME_COLUMNS or name.lower().startswith("time")]
    speed = _one(rates + times, "throughput", known, path)
    return _Columns(width, speed, speed in times)


def _one(found: list[str], example: str, known: list[str], path: str) -> str:
    if not found:
        message = f"a table must have a column such as {example!r}, got only: {listed(known)}"
        raise FileError(message, path=path, line=1)
    if len(found) > 1:
        remedy = "name the one you mean with 'rate' or 'time'" if example != "gpus" else "keep one"
        message = f"one column such as {example!r} must be there, got {listed(found)}; {remedy}"
        raise FileError(message, path=path, line=1)
    return found[0]


def _chosen(rows: list[Row], where: Mapping[str, str], path: str) -> list[Row]:
    chosen = rows
    for name, value in where.items():
        values = sorted({row[name].text for row in chosen})
        chosen = [row for row in chosen if row[name].text == value]
        if not chosen:
            listed = ", ".join(values[:_LISTED]) + (", …" if len(values) > _LISTED else "")
            raise FileError(f"{name} must be one of {listed}, got {shown(value)}", path=path)
    return chosen


def _check_alike(rows: list[Row], columns: _Columns, choice: RowSelection, path: str) -> None:
    """Raise FileError for rows of one width that differ in another column, such as the model or the GPU."""
    explained = {columns.width, columns.speed, *choice.group, *choice.where, *REPEAT_COLUMNS}
    first: dict[str, Row] = {}
    for row in rows:
        width = row[columns.width]
        other = first.setdefault(width.text, row)
        differing = next(
            (name for name in row if name not in explained and row[name].text != other[name].text), None
        )
        if differing is not None:
            both = f"{shown(other[differing].text)} and {shown(row[differing].text)}"
            lines = f"{other[differing].place.line} and {width.place.line}"
            raise width.place.error(
                f"rows of one width must be repeats, got {width.text} GPUs in lines {lines} with {differing} "
                f"{both}; choose one, or group by {differing}",
                path,
            )


def _rate(row: Row, columns: _Columns) -> tuple[int, float]:
    width, speed = row[columns.width], row[columns.speed]
    gpus, amount = width.number(), speed.number()
    if not 1 <= gpus <= MAX_MEASURED_GPUS or gpus != int(gpus):
        raise width.error(f"must be a whole number in 1..{MAX_MEASURED_GPUS}")
    if not amount > 0:
        raise speed.error("must be > 0")
    if not is_rate(rate := 1 / amount if columns.inverted else amount):
        raise speed.error(f"must be a rate in {LEAST_RATE:g}..{MOST_RATE:g}")
    return int(gpus), rate
