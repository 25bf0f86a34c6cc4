"""Reads recorded streams of jobs from CSV files: when each arrived, its class and its size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.stream import Stream, draw_sizes
from slacktide.core.arrays import Floats
from slacktide.core.errors import FileError, listed, shown, unknown_name
from slacktide.core.yaml_tree import read_text
from slacktide.market.formats.samples import CellRow, rows_of

TIME_COLUMNS = {"arrival_hours": 1.0, "arrival_s": 3600.0, "submit_s": 3600.0, "time": 3600.0}
"""Columns of arrival times, and how many of their units make an hour."""
CLASS_COLUMNS = ("class", "application")
WORK = "work_gpu_hours"
DURATION, WIDTH = "duration_s", "num_gpus"
"""How long a job ran on how many GPUs: its work follows from its class's speedup."""
MOST_HOURS = 1e7
"""The latest arrival, from the origin of the file's times: more than 1,000 years is a mistake of units."""
MOST_SPAN_HOURS = 876_000.0  # the longest that a recorded stream may be: a hundred years
LEAST_AMOUNT, MOST_AMOUNT = 1e-9, 1e12
"""Work, durations and widths outside of these are slips, and sums of them would lose the others."""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Which column of a table has each fact; None if the table does not have it."""

    names: tuple[str, ...]
    time: str
    job_class: str | None
    size: str | None

    def cell(self, row: CellRow, name: str) -> str:
        """Return the cell of a row in a column; empty if the row is too short."""
        place = self.names.index(name)
        return row.cells[place].strip() if place < len(row.cells) else ""


def read_jobs(path: str | Path, classes: Sequence[JobClass], *, sizes: str, seed: int = 0) -> Stream:
    """Read a stream of jobs of some classes; where a file does not give sizes, they are drawn.

    Needs a column of times (`arrival_hours`, or in seconds `submit_s`, `arrival_s` or `time`) and one of
    classes (`class` or `application`), unless there is only one class. Work is read from `work_gpu_hours`,
    or from `duration_s` and `num_gpus`; other columns are ignored. The stream begins one mean gap before
    its first job. Raises FileError with the line of a mistake.
    """
    place = str(path)
    rows = list(rows_of(read_text(path), place))
    columns = _columns(rows, classes, place)
    found = sorted((_job(row, columns, classes, place) for row in rows[1:]), key=lambda job: job[0])
    if not found:
        raise FileError("a recorded stream must have at least one job, got none", path=place)
    hours, kinds, size = (np.array(column) for column in zip(*found, strict=True))
    if hours[-1] - hours[0] > MOST_SPAN_HOURS:
        raise FileError(
            f"a recorded stream must last at most {MOST_SPAN_HOURS:g} hours, got {hours[-1] - hours[0]:.4g}; "
            "check the times and their unit",
            path=place,
        )
    if columns.size is None:
        size = draw_sizes(len(found), sizes, seed=seed)
    return Stream(_from_the_beginning(hours), kinds.astype(np.int64), size)


def _from_the_beginning(hours: Floats) -> Floats:
    """Start a stream one mean gap before its first job, so that rates count one gap for each job."""
    gap = float(hours[-1] - hours[0]) / max(1, len(hours) - 1)
    shifted: Floats = hours - hours[0] + gap
    return shifted


def header(rows: list[CellRow], known: Iterable[str], path: str) -> tuple[str, ...]:
    """Return the names of a table's columns; raises FileError if a known one comes twice."""
    if not rows:
        raise FileError("a table must have a header, got no text", path=path)
    names = tuple(cell.strip().lower().removeprefix("\ufeff") for cell in rows[0].cells)
    for name in known:
        if names.count(name) > 1:
            raise FileError(
                f"a column must come once, got {shown(name)} twice", path=path, line=rows[0].number
            )
    return names


def class_column(names: tuple[str, ...], classes: Sequence[JobClass], path: str, line: int) -> str | None:
    """Return the column of classes; None where there is none, and only one class."""
    job_class = next((name for name in CLASS_COLUMNS if name in names), None)
    if job_class is None and len(classes) > 1:
        raise FileError(
            f"a column 'class' or 'application' must say which of {len(classes)} classes a job is of, "
            f"got only: {listed(names)}",
            path=path,
            line=line,
        )
    return job_class


def _columns(rows: list[CellRow], classes: Sequence[JobClass], path: str) -> TableColumns:
    names = header(rows, (*TIME_COLUMNS, *CLASS_COLUMNS, WORK, DURATION, WIDTH), path)
    line = rows[0].number
    return TableColumns(
        names,
        _time_column(names, path, line),
        class_column(names, classes, path, line),
        size_column(names, path, line),
    )


def _time_column(names: tuple[str, ...], path: str, line: int) -> str:
    times = [name for name in TIME_COLUMNS if name in names]
    if len(times) != 1:
        raise FileError(
            f"one column must say when jobs arrived ({', '.join(TIME_COLUMNS)}), got "
            f"{' and '.join(times) or 'only: ' + listed(names)}",
            path=path,
            line=line,
        )
    return times[0]


def size_column(names: tuple[str, ...], path: str, line: int) -> str | None:
    """Return the column that says how large jobs are; None where sizes are to be drawn."""
    if WORK in names:
        return WORK
    if DURATION in names and WIDTH not in names:
        raise FileError(
            f"{DURATION!r} must come with {WIDTH!r}, the GPUs it ran on; leave it out to generate sizes",
            path=path,
            line=line,
        )
    return DURATION if DURATION in names else None


def _job(
    row: CellRow, columns: TableColumns, classes: Sequence[JobClass], path: str
) -> tuple[float, int, float]:
    """Return the arrival time of a job, its class and its size."""
    hours = _hours(row, columns, path)
    index = class_index(row, columns, classes, path)
    return hours, index, size_in(row, columns, classes[index], path)


def size_in(row: CellRow, columns: TableColumns, one: JobClass, path: str) -> float:
    """Return the work of a job as a multiple of its class's mean; 1 if the table does not say."""
    if columns.size is None:
        return 1.0
    amount = positive_in(row, columns, columns.size, path)
    if columns.size == WORK:
        return amount / one.work_gpu_hours
    gpus = positive_in(row, columns, WIDTH, path)
    usual = sum(phase.work_gpu_hours / phase.speedup(gpus) for phase in one.phases)
    return amount / 3600.0 / usual


def _hours(row: CellRow, columns: TableColumns, path: str) -> float:
    hours = number_in(row, columns, columns.time, path) / TIME_COLUMNS[columns.time]
    if abs(hours) > MOST_HOURS:
        came = shown(columns.cell(row, columns.time))
        raise FileError(
            f"column {shown(columns.time)} must be within {MOST_HOURS:g} hours, got {came}; check its unit",
            path=path,
            line=row.number,
        )
    return hours


def class_index(row: CellRow, columns: TableColumns, classes: Sequence[JobClass], path: str) -> int:
    """Return which class a job is of."""
    if columns.job_class is None:
        return 0
    name = columns.cell(row, columns.job_class)
    known = [one.name for one in classes]
    if name not in known:
        message = unknown_name("a class of the fleet", name, known)
        raise FileError(f"column {shown(columns.job_class)}: {message}", path=path, line=row.number)
    return known.index(name)


def positive_in(row: CellRow, columns: TableColumns, name: str, path: str) -> float:
    """Return a positive amount from a row's column."""
    found = number_in(row, columns, name, path)
    if found <= 0:
        raise FileError(f"column {shown(name)} must be > 0, got {found:g}", path=path, line=row.number)
    if not LEAST_AMOUNT <= found <= MOST_AMOUNT:
        must = f"must be in {LEAST_AMOUNT:g}..{MOST_AMOUNT:g}"
        raise FileError(f"column {shown(name)} {must}, got {found:g}", path=path, line=row.number)
    return found


def number_in(row: CellRow, columns: TableColumns, name: str, path: str) -> float:
    """Return a number from a row's column."""
    text = columns.cell(row, name)
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise FileError(
            f"column {shown(name)} must be a number, got {shown(text)}", path=path, line=row.number
        )
    return found
