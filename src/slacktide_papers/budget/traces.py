"""Recorded streams of jobs, with measured speedups: the files that the Pollux and Sia papers published."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.stream import Stream, realised_classes
from slacktide.core.errors import FileError, InputError
from slacktide.core.speedup import Table
from slacktide.core.types import Job
from slacktide.market.formats.samples import rows_of
from slacktide_papers.budget.cases import Case

SPEEDUPS = "pollux-sia-time-to-target.csv"
HARDWARE = "aws"  # the machines whose measurements are used: T4 GPUs, four to a node
NO_DATA = "No recorded streams were given: the comparisons with autoscaling are on synthetic streams only."


def recorded_cases(data: Path | None, most: int) -> tuple[list[Case], list[str]]:
    """Open the recorded streams of a folder, or of $SLACKTIDE_DATA; also say why others are left out.

    Raises InputError when a folder was named and holds none that can be used.
    """
    named = data or (Path(os.environ["SLACKTIDE_DATA"]) if os.environ.get("SLACKTIDE_DATA") else None)
    if named is None:
        return [], [NO_DATA]
    if not named.is_dir():
        raise InputError(f"the folder of recorded streams must exist, got {named}")
    try:
        cases, notes = _opened(named)
    except InputError as error:
        cases, notes = [], [f"Left out: {error}."]
    if not cases:
        if data is not None:
            raise InputError(
                f"{named} must hold jobs/*.csv and speedups/{SPEEDUPS}, got nothing usable; {' '.join(notes)}"
            )
        return [], [*notes, NO_DATA]
    cases = _with_neighbours(cases)
    if len(cases) > most:
        # Evenly, so that streams of every kind take part.
        kept = [cases[turn * len(cases) // most] for turn in range(most)]
        notes.append(f"Left out for the quick size: {_names(one for one in cases if one not in kept)}.")
        cases = kept
    return cases, notes


def _opened(folder: Path) -> tuple[list[Case], list[str]]:
    classes = measured_classes(folder / "speedups" / SPEEDUPS)
    cases, notes = [], [said_of_hull(classes)]
    for path in sorted((folder / "jobs").glob("*.csv")):
        try:
            cases.append(recorded(path, classes))
        except InputError as error:
            notes.append(f"Left out: {str(error).replace(str(path), path.name)}.")
    return cases, notes


def recorded(path: Path, classes: Sequence[JobClass]) -> Case:
    """Read one stream; its classes get the rates that it had, and policies know those."""
    jobs = sorted((number(cells["time"], path, line) / 3600, cells["application"], line)
                  for line, cells in table_of(path, ("time", "application")))  # fmt: skip
    known = {one.name: one for one in classes}
    for _, name, line in jobs:
        if name not in known:
            raise FileError(
                f"application must be one of {', '.join(known)}, got {name!r}", path=path, line=line
            )
    if len(jobs) < 2 or jobs[-1][0] <= 0:
        raise FileError(f"a stream must have two jobs or more, got {len(jobs)}", path=path)
    present = [name for name in known if any(job[1] == name for job in jobs)]
    stream = Stream(
        np.array([hours for hours, _, _ in jobs]),
        np.array([present.index(name) for _, name, _ in jobs]),
        np.ones(len(jobs)),
    )
    realised = realised_classes([known[name] for name in present], stream)
    return Case(path.stem, stream, tuple(one for one in realised if one is not None))


def measured_classes(path: Path) -> tuple[JobClass, ...]:
    """Read classes from measured times to the target: work is the time on one GPU."""
    hours: dict[str, dict[int, float]] = {}
    for line, cells in table_of(path, ("app", "hw", "n_gpus", "time_to_target_s")):
        if cells["hw"] == HARDWARE:
            gpus = int(number(cells["n_gpus"], path, line))
            hours.setdefault(cells["app"], {})[gpus] = number(cells["time_to_target_s"], path, line) / 3600
    for name, found in hours.items():
        if 1 not in found or min(found.values()) <= 0:
            raise FileError(f"{name} must have a time > 0 on one GPU, got none", path=path)
    return tuple(_measured(name, found) for name, found in sorted(hours.items()))


def _measured(name: str, hours: dict[int, float]) -> JobClass:
    """Return a class whose widths end where it is fastest: wider would cost more and be slower."""
    fastest = min(hours, key=lambda gpus: hours[gpus])
    return JobClass(
        Job(
            name=name,
            work_gpu_hours=hours[1],
            speedup=Table.of({gpus: hours[1] / each for gpus, each in hours.items() if gpus <= fastest}),
            widths=tuple(range(1, fastest + 1)),
        ),
        arrivals_per_hour=1.0,
    )


def said_of_hull(classes: Sequence[JobClass]) -> str:
    """Say how far the concave hull lies above the measurements."""
    parts = []
    for one in classes:
        table = one.job.speedup
        assert isinstance(table, Table)
        under = [1 - rate / table(gpus) for gpus, rate in table.points]
        parts.append(f"{one.name} {max(under):.0%}".replace("%", " %"))
    return (
        "Measured speedups are noisy; their upper concave hull is used, up to the fastest width. The largest "
        f"distance of a measured point below it: {', '.join(parts)}."
    )


def _with_neighbours(cases: Sequence[Case]) -> list[Case]:
    """Give each stream the rates of the next one of the same classes, if there is one."""
    found = []
    for case in cases:
        alike = [one for one in cases if _class_names(one) == _class_names(case)]
        other = alike[(alike.index(case) + 1) % len(alike)]
        found.append(dataclasses.replace(case, elsewhere=other.classes) if other is not case else case)
    return found


def _class_names(case: Case) -> list[str]:
    return [one.name for one in case.classes]


def _names(cases: Iterator[Case]) -> str:
    return ", ".join(case.name for case in cases)


def table_of(path: Path, wanted: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file that has some columns, with their lines. Raises FileError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"must be a readable text file, got: {type(error).__name__}", path=path) from error
    records = rows_of(text, str(path))
    names = next(records, None)
    missing = [name for name in wanted if names is None or name not in names.cells]
    if names is None or missing:
        raise FileError(f"column {missing[0]!r} must be there, got none", path=path, line=1)
    for line, cells in records:
        if len(cells) != len(names.cells):
            raise FileError(
                f"a row must have {len(names.cells)} cells, got {len(cells)}", path=path, line=line
            )
        yield line, dict(zip(names.cells, cells, strict=True))


def number(text: str, path: Path, line: int) -> float:
    """Read a number >= 0. Raises FileError."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise FileError(f"must be a number >= 0, got {text!r}", path=path, line=line)
    return found
