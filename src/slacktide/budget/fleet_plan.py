"""The answer to "how wide should each class be": widths, what they cost, what they buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide.budget.classes import JobClass


class WidthShare(NamedTuple):
    """A width, and the share of a class's jobs that have it."""

    gpus: float
    share: float


class PathShare(NamedTuple):
    """One way through the phases of a class, and the share of its jobs that take it."""

    widths: tuple[float, ...]  # one width for each phase
    share: float
    response_hours: float  # from arrival to end, restarts included
    gpu_hours: float  # GPU-hours rented for one job


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """How one class is run."""

    name: str
    paths: tuple[PathShare, ...]
    """One way, or two where this class is the one that is mixed; narrow before wide."""
    response_hours: float  # mean over the class's jobs
    average_gpus: float  # GPUs rented for this class, on average over time

    @property
    def phases(self) -> tuple[tuple[WidthShare, ...], ...]:
        """The widths of each phase with their shares, narrow before wide."""
        found = []
        for phase in range(len(self.paths[0].widths)):
            shares: dict[float, float] = {}
            for path in self.paths:
                shares[path.widths[phase]] = shares.get(path.widths[phase], 0.0) + path.share
            found.append(tuple(WidthShare(gpus, share) for gpus, share in sorted(shares.items())))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The optimum for a stream of jobs on an average budget."""

    budget_gpus: float
    shadow_price_hours_per_gpu: float
    """Hours of mean response that one more GPU on average would save: the slope of the frontier."""
    mean_response_hours: float
    average_gpus: float
    """GPUs rented on average over time; under the budget only where more would buy nothing."""
    classes: tuple[ClassPlan, ...]
    job_classes: tuple[JobClass, ...]  # the classes as they were given, in the same order
