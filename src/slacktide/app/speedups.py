"""Measured speedups: what a table of widths and rates says about how jobs scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slacktide.budget.fit import fit_speedups
from slacktide.core.errors import InputError
from slacktide.files.measured import RowSelection, read_measured
from slacktide.report.text.tables.speedups import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """A CSV table of measurements, and which of its rows and columns are meant."""

    path: str
    where: Mapping[str, str] = field(default_factory=dict)
    """Only rows that have these values in these columns."""
    group: tuple[str, ...] = ()  # columns whose values distinguish one series of measurements from another
    rate: str | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Fits:
    """The series that were fitted, and the names of those with only one width."""

    studies: list[Study]
    left_out: list[str]


def fit_measured(request: FitRequest) -> Fits:
    """Fit speedups to every series of a table; raises InputError where none has two widths, and FileError."""
    if request.rate is not None and request.time is not None:
        raise InputError("only one of --rate and --time may be given, got both")
    choice = RowSelection(where=request.where, group=request.group, rate=request.rate, time=request.time)
    found = read_measured(request.path, choice)
    enough = [series for series in found if len(series.points) > 1]
    if not enough:
        raise InputError(f"{request.path}: at least two widths must be measured to fit a speedup, got one")
    studies = [
        Study({**choice.where, **series.group}, series.points, fit_speedups(series.points))
        for series in enough
    ]
    left_out = [", ".join(series.group.values()) for series in found if len(series.points) <= 1]
    return Fits(studies, left_out)
