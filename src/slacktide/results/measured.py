"""Measurements of a job: its pace and restart time at each width, and how certain they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

LEAST_REPORTS = 4  # reports of growing progress that a pace needs: three stretches between them
PARTS = 10  # a measurement is cut into at most this many parts, whose differences say how sure it is
LEAST_SPREAD = 0.01  # no pace is known better than this: the next machine will differ


class Report(NamedTuple):
    """A job's progress when it was seen to have grown."""

    hours: float  # since the workers were started, on the clock that the job file counts in
    done_share: float


class Pace(NamedTuple):
    """How fast a job runs at one width."""

    share_per_hour: float
    spread_share: float  # one standard error, relative to the pace


def pace_of(reports: Sequence[Report]) -> Pace:
    """Return the pace between the first and the last report; there must be LEAST_REPORTS of them."""
    first, last = reports[0], reports[-1]
    mean = (last.done_share - first.done_share) / (last.hours - first.hours)
    rates = [
        (late.done_share - early.done_share) / (late.hours - early.hours)
        for early, late in pairwise(_cut(reports))
    ]
    error = float(np.std(rates, ddof=1)) / math.sqrt(len(rates)) / mean if len(rates) > 1 else 0.0
    return Pace(mean, max(LEAST_SPREAD, error))


def _cut(reports: Sequence[Report]) -> list[Report]:
    count = min(PARTS, len(reports) - 1)
    return [reports[round(index * (len(reports) - 1) / count)] for index in range(count + 1)]


@dataclass(frozen=True, slots=True)
class WidthMeasured:
    """What was measured at one width."""

    gpus: int
    pace: Pace
    restart_hours: float  # from the start of the workers until they made progress at their pace
    reports: int
    checkpoint_hours: float | None = None  # how long a checkpoint took, where the job says so


def measured_at(
    gpus: int, reports: Sequence[Report], begun_share: float, checkpoint_hours: float | None = None
) -> WidthMeasured:
    """Summarise the reports of workers that began with this share of the work done."""
    pace, first = pace_of(reports), reports[0]
    restart = first.hours - (first.done_share - begun_share) / pace.share_per_hour
    return WidthMeasured(gpus, pace, max(0.0, restart), len(reports), checkpoint_hours)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of a job at each width, at least one, the narrowest first."""

    job: str
    widths: tuple[WidthMeasured, ...]
    gpus_found: int  # GPUs of the machine that it was measured on; more workers than these shared them

    @property
    def work_gpu_hours(self) -> float:
        """The work on one GPU; where not measured, as if speedup were perfect up to the narrowest width."""
        narrowest = self.widths[0]
        return narrowest.gpus / narrowest.pace.share_per_hour

    @property
    def work_spread(self) -> float:
        """One standard error of the work, relative to it."""
        return self.widths[0].pace.spread_share

    def speedup(self, width: WidthMeasured) -> float:
        return self.work_gpu_hours * width.pace.share_per_hour

    def speedup_spread(self, width: WidthMeasured) -> float:
        """Return one standard error of the speedup, relative to it; the narrowest width is the unit."""
        if width is self.widths[0]:
            return 0.0
        return math.hypot(width.pace.spread_share, self.work_spread)

    @property
    def restart_hours(self) -> tuple[float, float]:
        seen = [width.restart_hours for width in self.widths]
        return min(seen), max(seen)
