"""Reads tables of past jobs: when each arrived, how long it ran, on how many GPUs, and of which kind.

Columns are recognized by the names that schedulers and trackers give them (Slurm's sacct, Weights & Biases,
Slacktide). Rows of jobs that did not run to their end are left out and counted by reason.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from slacktide.core.errors import FileError, InputError, listed, shown
from slacktide.core.files import read_at_most

MAX_BYTES = 200_000_000
KIND = ("class", "application", "jobname", "group", "name")
CAME = (
    "submit", "submit_time", "submit_s", "arrival_s", "arrival_hours", "created", "created_at", "createtime",
    "time", "start", "start_time",
)  # fmt: skip
LASTED = ("duration_s", "elapsedraw", "elapsed", "runtime", "_runtime", "duration_hours", "duration")
BEGAN, ENDED = ("start", "start_time"), ("end", "end_time")
WIDTH = (
    "num_gpus", "gpus", "alloctres", "reqtres", "allocgres", "gpu_count", "gpu count", "gpucount",
    "world_size",
)  # fmt: skip
STATE = ("state", "status")
DONE = ("completed", "finished", "succeeded", "success", "done", "")
MILLISECONDS_FROM = 1e11
"""Epoch times from here on are in milliseconds: in seconds they would be after the year 5000."""
_CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_TRES_GPUS = re.compile(r"gres/gpu(?::[^=,]*)?=(\d+)|gpu(?::[^=,:]*)?[:=](\d+)")
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class PastJob(NamedTuple):
    """A job that ran."""

    kind: str
    came_hours: float
    hours: float  # how long it ran
    gpus: int


@dataclass(frozen=True, slots=True)
class PastJobs:
    """The jobs of a table, and which rows were left out and why."""

    jobs: tuple[PastJob, ...]
    columns: dict[str, str]  # the column that each fact was read from
    left_out: dict[str, int]


def read_past(path: str | Path, by: str | None = None) -> PastJobs:
    """Read a table of past jobs; `by` names the column of their kind. Raises FileError with the line."""
    place = str(path)
    # Trackers' exports mix encodings; the times and numbers, which matter here, are ASCII in all of them.
    data = read_at_most(path, MAX_BYTES, f"{MAX_BYTES // 1_000_000} MB")
    rows = _rows(data.decode("utf-8", errors="replace"), place)
    names = [cell.strip().lower().removeprefix("\ufeff") for cell in rows[0]]
    columns = _columns(names, by, place)
    found, left_out = [], Counter[str]()
    for line, row in enumerate(rows[1:], start=2):
        cells = {what: row[names.index(name)].strip() if names.index(name) < len(row) else ""
                 for what, name in columns.items()}  # fmt: skip
        try:
            job = _job(cells, columns)
        except InputError as error:
            raise FileError(str(error), path=place, line=line) from None
        if isinstance(job, str):
            left_out[job] += 1
        else:
            found.append(job)
    if not found:
        why = listed([f"{count} {why}" for why, count in left_out.items()]) or "no rows"
        must = "a table of past jobs must have at least one that ran to its end"
        raise FileError(f"{must}, got {why}", path=place)
    return PastJobs(tuple(sorted(found, key=lambda job: job.came_hours)), columns, dict(left_out))


def _rows(text: str, path: str) -> list[list[str]]:
    first = text.partition("\n")[0]
    delimiter = max(",|\t;", key=first.count)  # sacct -P writes bars
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise FileError(f"must be a well-formed table, got: {error}", path=path) from None
    if not rows:
        raise FileError("a table must have a header, got no text", path=path, line=1)
    return rows


def _columns(names: list[str], by: str | None, path: str) -> dict[str, str]:

    def first_of(known: Sequence[str]) -> str | None:
        return next((name for name in known if name in names), None)

    if by is not None and by.lower() not in names:
        raise FileError(
            f"--by must be a column, got {shown(by)}; columns: {listed(names)}", path=path, line=1
        )
    found = {
        "kind": by.lower() if by else first_of(KIND),
        "came": first_of(CAME),
        "lasted": first_of(LASTED),
        "began": first_of(BEGAN),
        "ended": first_of(ENDED),
        "gpus": first_of(WIDTH),
        "state": first_of(STATE),
        "id": "jobid" if "jobid" in names else None,
    }
    for what, known, says in (
        ("came", CAME, "when a job arrived"),
        ("gpus", WIDTH, "on how many GPUs"),
    ):
        if found[what] is None:
            must = f"a column must say {says} ({', '.join(known)})"
            raise FileError(f"{must}, got only: {listed(names)}", path=path, line=1)
    if found["lasted"] is None and (found["began"] is None or found["ended"] is None):
        raise FileError(
            f"a column must say how long a job ran ({', '.join(LASTED)}), or start and end, got only: "
            f"{listed(names)}", path=path, line=1,
        )  # fmt: skip
    return {what: name for what, name in found.items() if name is not None}


def _job(cells: dict[str, str], columns: dict[str, str]) -> PastJob | str:
    """Return a job, or why it is left out; raises InputError for a time that cannot be read."""
    if "." in cells.get("id", ""):
        return "steps of jobs"
    state = cells.get("state", "").split(" ")[0].lower()
    if state not in DONE:
        return f"{state} jobs"
    came = _moment(cells["came"], columns["came"])
    if came is None:
        if cells["came"].lower() in ("", "unknown", "none", "null", "n/a", "nan"):
            return "jobs without a time"
        must = f"column {shown(columns['came'])} must be a time, ISO 8601 or seconds since 1970"
        raise InputError(f"{must}, got {shown(cells['came'])}")
    hours = _lasted(cells, columns)
    if hours is None:
        return "jobs without a duration"
    gpus = _gpus(cells["gpus"])
    if not gpus:
        return "jobs without GPUs"
    if hours <= 0:
        return "jobs that took no time"
    kind = _NAME.sub("-", cells.get("kind", "")).strip("-._")[:40] or "jobs"
    return PastJob(kind, came, hours, gpus)


def _moment(text: str, column: str) -> float | None:
    """Read an ISO or epoch time in hours; a time without a zone is taken as UTC."""
    number = _number(text)
    if number is not None:
        if column.endswith("_hours"):
            return number
        return number / (3_600_000 if abs(number) >= MILLISECONDS_FROM else 3_600)
    try:
        found = datetime.fromisoformat(text.replace(" UTC", "Z"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() / 3600


def _lasted(cells: dict[str, str], columns: dict[str, str]) -> float | None:
    if "lasted" in columns:
        return _duration(cells["lasted"], columns["lasted"])
    began, ended = _moment(cells["began"], columns["began"]), _moment(cells["ended"], columns["ended"])
    return None if began is None or ended is None else ended - began


def _duration(text: str, column: str) -> float | None:
    """Read seconds, hours if the column's name ends with that, or Slurm's [D-]HH:MM:SS; returns hours."""
    number = _number(text)
    if number is not None:
        return number if column.endswith("_hours") else number / 3600
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
    return days * 24 + hours + minutes / 60 + seconds / 3600


def _gpus(text: str) -> int:
    """Read a number of GPUs, or find it in Slurm's `billing=8,gres/gpu=4`; 0 if there is none."""
    number = _number(text)
    if number is not None:
        return int(number) if 0 < number <= 1e6 else 0
    found = _TRES_GPUS.search(text.lower())
    return int(found[1] or found[2]) if found else 0


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
