"""Results of simulated streams: how long jobs took, GPU-hours rented and wasted; and runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.arrays import Floats

POOL = "cluster"  # the only pool of a simulated stream: GPUs at one price
PREFIX = "job-"  # a job's name is this and its number in the stream


@dataclass(frozen=True, slots=True)
class Responses:
    """How long some jobs took from arrival to end."""

    jobs: int
    mean_hours: float
    p50_hours: float
    p95_hours: float

    @classmethod
    def of(cls, hours: Floats) -> Responses:
        """Summarise response times; NaN where there are no jobs."""
        if not len(hours):
            return cls(0, np.nan, np.nan, np.nan)
        middle, late = (len(hours) - 1) // 2, -(-95 * len(hours) // 100) - 1
        ranked = np.partition(hours, (middle, late))
        return cls(len(hours), float(hours.mean()), float(ranked[middle]), float(ranked[late]))


@dataclass(frozen=True, slots=True)
class GpuHourBill:
    """GPU-hours that were paid for, split into what they were used for; the parts add up.

    Restart: held by jobs that made no progress yet after a start or a change of width. Fragmentation: GPUs
    that are free on nodes of which others are in use. Idle: nodes that no job used, those on their way
    included.

    It is the sum of the run's stretches, added up during the run so that they need not be kept.
    """

    gpu_hours: float  # all that was paid for
    busy_gpu_hours: float
    restart_gpu_hours: float
    fragmentation_gpu_hours: float
    idle_gpu_hours: float

    def share(self, gpu_hours: float) -> float:
        return gpu_hours / self.gpu_hours if self.gpu_hours else 0.0


@dataclass(frozen=True)
class StreamRun:
    """A stream under one policy.

    `average_gpus` is what these jobs cost until the last of them was done, per hour of the time over which
    they arrived. In the long run this is the average over time; it has neither the bias of a cluster that
    begins empty nor that of jobs cut off at the end, and it makes policies comparable job by job.
    """

    policy: str
    stream: Stream
    response_hours: Floats  # of each job of the stream, in its order
    bill: GpuHourBill
    peak_gpus: int  # the most GPUs that were paid for at once
    resizes: int  # how often a running job's width was changed
    end_hours: float  # when the last job was done

    @cached_property
    def responses(self) -> Responses:
        return Responses.of(self.response_hours)

    @property
    def mean_response_hours(self) -> float:
        return self.responses.mean_hours

    @property
    def average_gpus(self) -> float:
        """GPUs paid for, on average over the time in which jobs arrived."""
        return self.bill.gpu_hours / (self.stream.hours or self.end_hours)

    def responses_of(self, class_index: int) -> Responses:
        return Responses.of(self.response_hours[self.stream.class_index == class_index])


@dataclass(frozen=True, slots=True)
class StreamRow:
    """One policy next to the optimum that spends the same."""

    policy: str  # its name, with the parameters that are not at their defaults
    run: StreamRun
    optimum: StreamRun | None
    """Fixed widths on the same stream that spend as much on average; None where they cannot spend so little.

    Where they cannot spend that amount, because all jobs are at their fastest, this spends less.
    """

    @property
    def ratio(self) -> float | None:
        if self.optimum is None:
            return None
        return self.run.mean_response_hours / self.optimum.mean_response_hours


@dataclass(frozen=True, slots=True)
class StreamComparison:
    """Policies on one stream."""

    fleet: Fleet
    stream: Stream
    rows: tuple[StreamRow, ...]
    jobs_from: str = ""  # where the jobs came from, in words: a file, or how they were drawn
    usd_per_gpu_hour: float | None = None
