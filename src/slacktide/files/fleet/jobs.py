"""Reads past jobs of a fleet on a market from CSV files: when each arrived, its class, work and deadline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from slacktide.budget.classes import JobClass
from slacktide.budget.stream import draw_sizes
from slacktide.core.errors import FileError, InputError, listed, shown
from slacktide.core.yaml_tree import read_text
from slacktide.files import keys
from slacktide.files.fleet.recorded_jobs import (
    CLASS_COLUMNS,
    DURATION,
    MOST_AMOUNT,
    MOST_SPAN_HOURS,
    TIME_COLUMNS,
    WIDTH,
    WORK,
    TableColumns,
    class_column,
    class_index,
    header,
    number_in,
    size_column,
    size_in,
)
from slacktide.market.formats.samples import CellRow, rows_of

MOMENT_COLUMNS = {"submit_hours": 1.0, "submit_utc": 1.0, "submitted": 1.0, **TIME_COLUMNS}
"""Columns of submission times, and how many of their units make an hour."""
DEADLINE, VALUE, PRIORITY, PATIENCE = "deadline_hours", "value_usd", "priority", "patience_hours"
NAME, OWNER = "name", "owner"
NONE = "none"
EPOCH_HOURS = 100_000.0
"""Numbers from here on count from 1970: as hours of a run they would be more than eleven years."""


class FleetJob(NamedTuple):
    """A job of the table; None means that its class decides."""

    submitted_hours: float
    kind: int  # which class of the fleet it is of
    work_gpu_hours: float
    deadline_hours: float | None = None  # from its submission; infinite: it has none, whatever its class says
    value_usd: float | None = None
    weight: float | None = None
    patience_hours: float | None = None
    name: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class FleetJobs:
    """The jobs of a table in the order of their submission."""

    jobs: tuple[FleetJob, ...]
    began: datetime | None = None
    """The date of hour 0, which is a midnight in UTC; None where the table counts hours without a date."""


def read_fleet_jobs(path: str | Path, classes: Sequence[JobClass], *, sizes: str, seed: int = 0) -> FleetJobs:
    """Read the jobs of a fleet; where a table does not give work, it is drawn.

    Columns: when a job was submitted (`submit_hours`, or a date in `submit_utc` or `submitted`; those of a
    recorded stream too), `class`, `work_gpu_hours` (or `duration_s` and `num_gpus`), and where there are any
    `deadline_hours`, `value_usd`, `priority`, `patience_hours`, `name` and `owner`. An empty cell is as the
    class says. Raises FileError with the line of a mistake.
    """
    if not classes:
        raise InputError(f"{path}: jobs must be of a class, got a fleet file without classes; add 'classes:'")
    place = str(path)
    rows = list(rows_of(read_text(path), place))
    columns = _columns(rows, classes, place)
    if len(rows) == 1:
        raise FileError("a table of jobs must have at least one, got none", path=place)
    drawn = None if columns.size else draw_sizes(len(rows) - 1, sizes, seed=seed).tolist()
    found, dated = [], set()
    for number, row in enumerate(rows[1:]):
        hours, is_date = _moment(row, columns, place)
        dated.add(is_date)
        if len(dated) > 1:
            raise _mistake(row, columns, columns.time, "be dates or numbers in all rows", place)
        found.append(_job(row, columns, classes, hours, drawn[number] if drawn else None, place))
    _check_names(rows[1:], found, place)
    return _in_order(found, dated.pop(), place)


def _columns(rows: list[CellRow], classes: Sequence[JobClass], path: str) -> TableColumns:
    own = (DEADLINE, VALUE, PRIORITY, PATIENCE, NAME, OWNER)
    names = header(rows, (*MOMENT_COLUMNS, *CLASS_COLUMNS, WORK, DURATION, WIDTH, *own), path)
    line = rows[0].number
    times = [name for name in MOMENT_COLUMNS if name in names]
    if len(times) != 1:
        raise FileError(
            f"one column must say when jobs were submitted ({', '.join(MOMENT_COLUMNS)}), got "
            f"{' and '.join(times) or 'only: ' + listed(names)}",
            path=path,
            line=line,
        )
    return TableColumns(
        names, times[0], class_column(names, classes, path, line), size_column(names, path, line)
    )


def _moment(row: CellRow, columns: TableColumns, path: str) -> tuple[float, bool]:
    """Return when a job was submitted, and whether that is a date, in hours since 1970."""
    text = columns.cell(row, columns.time)
    try:
        hours = float(text) / MOMENT_COLUMNS[columns.time]
    except ValueError:
        try:
            found = datetime.fromisoformat(text.replace(" UTC", "Z"))
        except ValueError:
            must = "be a number or a time such as 2030-05-01T18:00:00Z"
            raise _mistake(row, columns, columns.time, must, path) from None
        # A time without a zone is taken as UTC.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() / 3600.0, True
    if not 0 <= hours < math.inf:
        raise _mistake(row, columns, columns.time, "be >= 0", path)
    return hours, hours >= EPOCH_HOURS


def _job(
    row: CellRow,
    columns: TableColumns,
    classes: Sequence[JobClass],
    hours: float,
    drawn: float | None,
    path: str,
) -> FleetJob:
    kind = class_index(row, columns, classes, path)
    size = size_in(row, columns, classes[kind], path) if drawn is None else drawn
    return FleetJob(
        hours,
        kind,
        size * classes[kind].work_gpu_hours,
        _optional(row, columns, DEADLINE, path, none=math.inf),
        _optional(row, columns, VALUE, path, none=0.0, least=0.0),
        _optional(row, columns, PRIORITY, path, least=keys.LEAST_WEIGHT, most=keys.MOST_WEIGHT),
        _optional(row, columns, PATIENCE, path, none=math.inf, least=0.0),
        _text(row, columns, NAME),
        _text(row, columns, OWNER),
    )


def _optional(
    row: CellRow,
    columns: TableColumns,
    name: str,
    path: str,
    *,
    none: float | None = None,
    least: float = 1e-9,
    most: float = MOST_AMOUNT,
) -> float | None:
    """Return a number that a table may leave out; `none` says that there is none, whatever the class says."""
    text = columns.cell(row, name) if name in columns.names else ""
    if not text:
        return None
    if text.lower() == NONE and none is not None:
        return none
    found = number_in(row, columns, name, path)
    if not least <= found <= most:
        raise _mistake(row, columns, name, f"be in {least:g}..{most:g}", path)
    return found


def _text(row: CellRow, columns: TableColumns, name: str) -> str:
    return columns.cell(row, name) if name in columns.names else ""


def _mistake(row: CellRow, columns: TableColumns, name: str, must: str, path: str) -> FileError:
    came = shown(columns.cell(row, name))
    return FileError(f"column {shown(name)} must {must}, got {came}", path=path, line=row.number)


def _check_names(rows: Sequence[CellRow], jobs: Sequence[FleetJob], path: str) -> None:
    lines: dict[str, int] = {}
    for row, job in zip(rows, jobs, strict=True):
        first = lines.setdefault(job.name, row.number) if job.name else row.number
        if first != row.number:
            must = f"a name must come once, got {shown(job.name)} again after line {first}"
            raise FileError(must, path=path, line=row.number)


def _in_order(jobs: list[FleetJob], dated: bool, path: str) -> FleetJobs:
    """Return jobs in the order of their submission; dates are counted from the midnight before the first."""
    jobs.sort(key=lambda job: job.submitted_hours)
    first, last = jobs[0].submitted_hours, jobs[-1].submitted_hours
    began = 24.0 * math.floor(first / 24.0) if dated else 0.0
    if last - began > MOST_SPAN_HOURS:
        raise FileError(
            f"a table of jobs must last at most {MOST_SPAN_HOURS:g} hours, got {last - began:.4g}; "
            "check the times and their unit",
            path=path,
        )
    moved = tuple(job._replace(submitted_hours=job.submitted_hours - began) for job in jobs)
    return FleetJobs(moved, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=began) if dated else None)
