"""What earlier runs of a job measured of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class WidthMeasured:
    """How fast a run was on one width."""

    gpus: int
    hours: float  # productive hours that were measured on it
    speed_ratio: float  # how many times as fast as its file said


@dataclass(frozen=True, slots=True)
class LastRun:
    """What one run measured: the work of its job, on one reference GPU, and its speed by width."""

    job: str  # its name in the journal
    ended_utc: datetime
    work_gpu_hours: float
    work_spread_share: float  # how far that may be off: a standard deviation, as a share
    file_work_gpu_hours: float  # what its file said
    widths: tuple[WidthMeasured, ...]


@dataclass(frozen=True, slots=True)
class LastRuns:
    """The runs of a job's name that succeeded and were measured."""

    runs: int
    mean_work_gpu_hours: float
    last: LastRun
