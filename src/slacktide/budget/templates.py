"""What jobs of a class have in common on a market: a job with its deadline and worth, and a rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from slacktide.core.types import Job


@dataclass(frozen=True, slots=True)
class Template:
    """A class of jobs that share one market and its money; where a job says nothing, this counts."""

    job: Job
    """What such a job is like; its work is that of the mean job, its deadline counts from submission."""
    arrivals_per_hour: float
    weight: float = 1.0
    """How many times as much as a usual job's an hour of its waiting counts."""
    patience_hours: float = math.nan
    """How long it may go without GPUs before it rents on demand; not a number: as the allocator thinks."""

    @property
    def name(self) -> str:
        """What the class is called."""
        return self.job.name


def load_gpus(templates: Iterable[Template]) -> float:
    """Return the work that classes bring per hour: the GPUs that it would keep busy one by one."""
    return sum(one.arrivals_per_hour * one.job.work_gpu_hours for one in templates)
