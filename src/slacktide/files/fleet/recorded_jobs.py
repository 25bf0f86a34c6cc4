"""Reads tables of recorded jobs from CSV files: streams of classes, and past jobs of a fleet on a market."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from slacktide.budget.classes import JobClass, JobTemplate, Member
from slacktide.budget.stream import Stream, draw_sizes
from slacktide.core.errors import FileError, InputError, listed, shown, unknown_name
from slacktide.core.yaml_tree import read_text
from slacktide.files import keys
from slacktide.market.formats.samples import CellRow, rows_of

TIME_COLUMNS = {"arrival_hours": 1.0, "arrival_s": 3600.0, "submit_s": 3600.0, "time": 3600.0}
"""Columns of arrival times, and how many of their units make an hour."""
MOMENT_COLUMNS = {"submit_hours": 1.0, "submit_utc": 1.0, "submitted": 1.0, **TIME_COLUMNS}
"""The same for a fleet on a market, where the values may also be dates."""
CLASS_COLUMNS = ("class", "application")
WORK = "work_gpu_hours"
DURATION, WIDTH = "duration_s", "num_gpus"
"""How long a job ran on how many GPUs: its work follows from its class's speedup."""
DEADLINE, VALUE, PRIORITY, PATIENCE = "deadline_hours", "value_usd", "priority", "patience_hours"
NAME, OWNER = "name", "owner"
NONE = "none"
EPOCH_HOURS = 100_000.0
"""Hours from here on count from 1970: as hours of a run they would be more than eleven years."""
MOST_HOURS = 1e7
"""The latest arrival, from hour 0 of the file: more than 1,000 years must be a wrong unit."""
MOST_SPAN_HOURS = 876_000.0  # the longest that a recorded stream may be: a hundred years
LEAST_AMOUNT, MOST_AMOUNT = 1e-9, 1e12
"""Work, durations and widths outside of these must be mistakes; added to others they would drown them."""


@dataclass(frozen=True, slots=True)
class FleetJobs:
    """The jobs of a table in the order of their submission."""

    jobs: tuple[Member, ...]
    began: datetime | None = None
    """The date of hour 0, which is a midnight in UTC; None where the table counts hours without a date."""


def read_jobs(path: str | Path, classes: Sequence[JobClass], *, sizes: str, seed: int = 0) -> Stream:
    """Read a stream of jobs of some classes; if the file does not give sizes, they are drawn at random.

    Needs a column of times (`arrival_hours`, or in seconds `submit_s`, `arrival_s` or `time`) and one of
    classes (`class` or `application`), unless there is only one class. Work is read from `work_gpu_hours`,
    or from `duration_s` and `num_gpus`; other columns are ignored. The stream begins one mean gap before
    its first job. Raises FileError with the line of a mistake.
    """
    table = _JobTable(path, classes, TIME_COLUMNS, "arrived")
    found = sorted((table.arrival(row) for row in table.rows), key=lambda job: job[0])
    if not found:
        raise FileError("a recorded stream must have at least one job, got none", path=path)
    hours, kinds, size = (np.array(column) for column in zip(*found, strict=True))
    span = float(hours[-1] - hours[0])
    _check_span(span, "a recorded stream", table.path)
    if table.size is None:
        size = draw_sizes(len(found), sizes, seed=seed)
    # One mean gap before the first job, so that rates count one gap for each job.
    return Stream(hours - hours[0] + span / max(1, len(hours) - 1), kinds.astype(np.int64), size)


def read_fleet_jobs(
    path: str | Path, templates: Sequence[JobTemplate], *, sizes: str, seed: int = 0
) -> FleetJobs:
    """Read the jobs of a fleet; if the table does not give work, it is drawn at random.

    Columns: when a job was submitted (`submit_hours`, a date in `submit_utc` or `submitted`, or a column of
    times as in `read_jobs`), `class`, `work_gpu_hours` (or `duration_s` and `num_gpus`), and optionally
    `deadline_hours`, `value_usd`, `priority`, `patience_hours`, `name` and `owner`. An empty cell means what
    the class says. Raises FileError with the line of a mistake.
    """
    if not templates:
        raise InputError(f"{path}: jobs must be of a class, got a fleet file without classes; add 'classes:'")
    own = (DEADLINE, VALUE, PRIORITY, PATIENCE, NAME, OWNER)
    table = _JobTable(path, templates, MOMENT_COLUMNS, "were submitted", own)
    if not table.rows:
        raise FileError("a table of jobs must have at least one, got none", path=path)
    drawn = None if table.size else draw_sizes(len(table.rows), sizes, seed=seed).tolist()
    found, dated, lines = list[Member](), set[bool](), dict[str, int]()
    for number, row in enumerate(table.rows):
        hours, is_date = table.moment(row)
        dated.add(is_date)
        if len(dated) > 1:
            raise table.mistake(row, table.time, "be dates or numbers in all rows")
        found.append(table.job(row, templates, hours, drawn[number] if drawn else None))
    for row, job in zip(table.rows, found, strict=True):
        first = lines.setdefault(job.name, row.number) if job.name else row.number
        if first != row.number:
            must = f"a name must come once, got {shown(job.name)} again after line {first}"
            raise FileError(must, path=path, line=row.number)
    return _in_order(found, dated.pop(), table.path)


def _in_order(jobs: list[Member], dated: bool, path: str) -> FleetJobs:
    """Return jobs in the order of submission; dates are counted from the midnight before the first job."""
    jobs.sort(key=lambda job: job.submitted_hours)
    began = 24.0 * math.floor(jobs[0].submitted_hours / 24.0) if dated else 0.0
    _check_span(jobs[-1].submitted_hours - began, "a table of jobs", path)
    moved = tuple(replace(job, submitted_hours=job.submitted_hours - began) for job in jobs)
    return FleetJobs(moved, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=began) if dated else None)


def _check_span(hours: float, what: str, path: str) -> None:
    if hours > MOST_SPAN_HOURS:
        must = f"{what} must last at most {MOST_SPAN_HOURS:g} hours"
        raise FileError(f"{must}, got {hours:.4g}; check the times and their unit", path=path)


class _JobTable:
    """The rows of a table of jobs, and the names of its columns of times, classes and sizes."""

    def __init__(
        self,
        path: str | Path,
        classes: Sequence[JobClass | JobTemplate],
        times: dict[str, float],
        came: str,
        own: Iterable[str] = (),
    ) -> None:
        """Read a table; `times` are columns of times to look for, `own` others; `came` is for errors."""
        self.path, self._classes, self._times = str(path), classes, times
        rows = list(rows_of(read_text(path), self.path))
        if not rows:
            raise FileError("a table must have a header, got no text", path=path)
        header, *self.rows = rows
        self._names = tuple(cell.strip().lower().removeprefix("\ufeff") for cell in header.cells)
        for name in (*times, *CLASS_COLUMNS, WORK, DURATION, WIDTH, *own):
            if self._names.count(name) > 1:
                raise self._refused(header, f"a column must come once, got {shown(name)} twice")
        found = [name for name in times if name in self._names]
        if len(found) != 1:
            got = " and ".join(found) or "only: " + listed(self._names)
            must = f"one column must say when jobs {came} ({', '.join(times)})"
            raise self._refused(header, f"{must}, got {got}")
        self.time = found[0]
        self._class = next((name for name in CLASS_COLUMNS if name in self._names), None)
        if self._class is None and len(classes) > 1:
            must = f"a column 'class' or 'application' must say which of {len(classes)} classes a job is of"
            raise self._refused(header, f"{must}, got only: {listed(self._names)}")
        self.size = next((name for name in (WORK, DURATION) if name in self._names), None)
        if self.size == DURATION and WIDTH not in self._names:
            must = f"{DURATION!r} must come with {WIDTH!r}, the GPUs it ran on"
            raise self._refused(header, f"{must}; leave it out to generate sizes")

    def _refused(self, row: CellRow, message: str) -> FileError:
        return FileError(message, path=self.path, line=row.number)

    def mistake(self, row: CellRow, name: str, must: str) -> FileError:
        """Return an error about a cell, which it quotes."""
        return self._refused(row, f"column {shown(name)} must {must}, got {shown(self._cell(row, name))}")

    def arrival(self, row: CellRow) -> tuple[float, int, float]:
        """Return the arrival time of a job in hours, the index of its class, and its size."""
        hours = self._number(row, self.time) / self._times[self.time]
        if abs(hours) > MOST_HOURS:
            must = f"column {shown(self.time)} must be within {MOST_HOURS:g} hours"
            raise self._refused(row, f"{must}, got {shown(self._cell(row, self.time))}; check its unit")
        kind = self._kind(row)
        return hours, kind, self._size(row, kind)

    def moment(self, row: CellRow) -> tuple[float, bool]:
        """Return when a job was submitted, in hours, and whether these are a date's hours since 1970."""
        text = self._cell(row, self.time)
        try:
            hours = float(text) / self._times[self.time]
        except ValueError:
            try:
                found = datetime.fromisoformat(text.replace(" UTC", "Z"))
            except ValueError:
                must = "be a number or a time such as 2030-05-01T18:00:00Z"
                raise self.mistake(row, self.time, must) from None
            # A time without a zone is taken as UTC.
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() / 3600.0, True
        if not 0 <= hours < math.inf:
            raise self.mistake(row, self.time, "be >= 0")
        return hours, hours >= EPOCH_HOURS

    def job(
        self, row: CellRow, templates: Sequence[JobTemplate], hours: float, drawn: float | None
    ) -> Member:
        """Return the job of a row; `drawn` is its size if the table has none."""
        kind = self._kind(row)
        member = templates[kind].member(hours, self._size(row, kind) if drawn is None else drawn)
        weight = self._optional(row, PRIORITY, least=keys.LEAST_WEIGHT, most=keys.MOST_WEIGHT)
        patience_hours = self._optional(row, PATIENCE, none=math.inf, least=0.0)
        return replace(
            member,
            deadline_hours=self._optional(row, DEADLINE, none=math.inf),
            value_usd=self._optional(row, VALUE, none=0.0, least=0.0),
            weight=member.weight if weight is None else weight,
            patience_hours=member.patience_hours if patience_hours is None else patience_hours,
            name=self._cell(row, NAME),
            owner=self._cell(row, OWNER),
        )

    def _cell(self, row: CellRow, name: str) -> str:
        """Return the cell of a row in a column; empty where there is none."""
        place = self._names.index(name) if name in self._names else len(row.cells)
        return row.cells[place].strip() if place < len(row.cells) else ""

    def _optional(
        self,
        row: CellRow,
        name: str,
        *,
        none: float | None = None,
        least: float = LEAST_AMOUNT,
        most: float = MOST_AMOUNT,
    ) -> float | None:
        """Return an optional number: None for an empty cell, the argument `none` for a cell with `none`."""
        text = self._cell(row, name)
        if not text:
            return None
        if text.lower() == NONE and none is not None:
            return none
        found = self._number(row, name)
        if not least <= found <= most:
            raise self.mistake(row, name, f"be in {least:g}..{most:g}")
        return found

    def _kind(self, row: CellRow) -> int:
        if self._class is None:
            return 0
        name, known = self._cell(row, self._class), [job_class.name for job_class in self._classes]
        if name not in known:
            message = unknown_name("a class of the fleet", name, known)
            raise self._refused(row, f"column {shown(self._class)}: {message}")
        return known.index(name)

    def _size(self, row: CellRow, kind: int) -> float:
        """Return the work of a job as a multiple of its class's mean; 1 if the table does not say."""
        if self.size is None:
            return 1.0
        amount, job = self._amount(row, self.size), self._classes[kind].job
        if self.size == WORK:
            return amount / job.work_gpu_hours
        gpus = self._amount(row, WIDTH)
        return amount / 3600.0 / sum(phase.work_gpu_hours / phase.speedup(gpus) for phase in job.parts)

    def _amount(self, row: CellRow, name: str) -> float:
        found = self._number(row, name)
        if not LEAST_AMOUNT <= found <= MOST_AMOUNT:
            must = f"be in {LEAST_AMOUNT:g}..{MOST_AMOUNT:g}" if found > 0 else "be > 0"
            raise self._refused(row, f"column {shown(name)} must {must}, got {found:g}")
        return found

    def _number(self, row: CellRow, name: str) -> float:
        try:
            found = float(self._cell(row, name))
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise self.mistake(row, name, "be a number")
        return found
