"""What a comparison is made on: a stream, the machines it runs on, and how much is run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.frontier import Frontier, frontier
from slacktide.budget.stream import Stream, realised_classes
from slacktide.core.errors import InputError
from slacktide.core.units import format_duration

IDEAL_NAME = "ideal machines"


class Machines(NamedTuple):
    """What renting, starting and resizing take."""

    restart_hours: float = 0.0
    node_gpus: int = 1
    provisioning_hours: float = 0.0
    restarts: str = ""  # describes restarts where each class has its own; `restart_hours` then has no meaning

    @property
    def name(self) -> str:
        """What is not ideal, in words."""
        parts = [self.restarts] if self.restarts else []
        if self.restart_hours:
            parts.append(f"restart {format_duration(self.restart_hours)}")
        if self.node_gpus > 1:
            parts.append(f"nodes of {self.node_gpus}")
        if self.provisioning_hours:
            parts.append(f"{format_duration(self.provisioning_hours)} to come")
        return ", ".join(parts) or IDEAL_NAME


IDEAL = Machines()
USUAL = Machines(restart_hours=30 / 3600, node_gpus=4, provisioning_hours=90 / 3600)


class Size(NamedTuple):
    """How much is run."""

    jobs: int  # jobs of a stream drawn for the paper's fleets
    synthetic_jobs: int
    streams: int  # recorded streams that take part, at most
    budgets: int  # budgets of the optimum, from just feasible to five times that
    clusters: tuple[float, ...]  # sizes of fixed clusters, in multiples of the load
    efficiencies: tuple[float, ...]  # middles of the band
    widths: tuple[int, ...]  # widths given to all jobs alike
    cluster_widths: tuple[int, ...]  # widths of which fixed clusters with FIFO and SRPT take the best
    steps: tuple[Machines, ...]  # machines that are worse than ideal in one thing
    draws: int  # streams of 85 jobs that are drawn for the comparison with restarts and speedups that change
    targets: tuple[float, ...]  # efficiencies at which the autoscaler aims there
    recorded_jobs: int  # jobs of each recorded stream that take part in it, at most: the first ones


FULL = Size(
    jobs=4_000,
    synthetic_jobs=960,
    streams=8,
    budgets=24,
    clusters=(1.1, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0),
    efficiencies=(0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25),
    widths=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    cluster_widths=(1, 2, 4, 8, 16),
    steps=(
        *(Machines(restart_hours=seconds / 3600) for seconds in (30, 60, 120, 300)),
        *(Machines(node_gpus=gpus) for gpus in (4, 8)),
        *(Machines(provisioning_hours=minutes / 60) for minutes in (1, 2, 5)),
    ),
    draws=5,
    targets=(0.8, 0.7, 0.6, 0.5, 0.42, 0.34, 0.27, 0.2),
    recorded_jobs=320,
)
QUICK = Size(
    jobs=600,
    synthetic_jobs=240,
    streams=2,
    budgets=14,
    clusters=(1.25, 2.0, 4.0),
    efficiencies=(0.9, 0.75, 0.6, 0.45, 0.3),
    widths=(1, 2, 4, 8, 16, 32),
    cluster_widths=(1, 4, 16),
    steps=(Machines(restart_hours=120 / 3600), Machines(node_gpus=8), Machines(provisioning_hours=2 / 60)),
    draws=2,
    targets=(0.8, 0.6, 0.4, 0.25),
    recorded_jobs=80,
)


@dataclass(frozen=True)
class Case:
    """A stream on some machines, with what policies know of it."""

    name: str
    stream: Stream
    classes: tuple[JobClass, ...]  # as the policies know them; the index of a stream's job counts in these
    machines: Machines = IDEAL
    elsewhere: tuple[JobClass, ...] = ()
    """The same classes with the rates of another stream; empty where there is none."""

    def on(self, machines: Machines) -> Case:
        """Return the same stream on other machines."""
        classes, elsewhere = (
            tuple(_restarting(one, machines.restart_hours) for one in known)
            for known in (self.classes, self.elsewhere)
        )
        return dataclasses.replace(self, machines=machines, classes=classes, elsewhere=elsewhere)

    @cached_property
    def fleet(self) -> Fleet:
        """What policies may know."""
        return Fleet(
            self.classes,
            node_gpus=self.machines.node_gpus,
            provisioning_hours=self.machines.provisioning_hours,
        )

    @cached_property
    def bound(self) -> Frontier:
        """The frontier of the jobs that really came, on ideal machines; on any machines no policy beats it.

        Whatever widths a job has, its hours plus any price times its GPU-hours are at least its work times
        the least of (1 + price k) / s(k); summed over the jobs of the stream this is the frontier. Restarts
        are left out: with them a job's least is not in proportion to its work, and no mean bounds a job.
        """
        came = (one for one in realised_classes(self.classes, self.stream) if one is not None)
        return frontier([_restarting(one, 0.0) for one in came])

    def bound_hours(self, average_gpus: float) -> float:
        """Return the bound on the mean response at a bill."""
        return float(np.interp(average_gpus, self.bound.budget_gpus, self.bound.mean_response_hours))

    @property
    def load_gpus(self) -> float:
        """The work that came, per hour."""
        return sum(one.load_gpus for one in self.bound.job_classes)


def checked(machines: Machines) -> Machines:
    """Return the machines; raises InputError for an impossible number."""
    if machines.node_gpus < 1:
        raise InputError(f"node_gpus must be >= 1, got {machines.node_gpus}")
    for name in ("restart_hours", "provisioning_hours"):
        if not 0 <= getattr(machines, name) < float("inf"):
            raise InputError(f"{name} must be >= 0, got {getattr(machines, name):g}")
    return machines


def _restarting(one: JobClass, restart_hours: float) -> JobClass:
    return dataclasses.replace(one, job=dataclasses.replace(one.job, restart_hours=restart_hours))
