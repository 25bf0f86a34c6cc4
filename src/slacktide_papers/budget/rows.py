"""What the experiments on streams return: plain rows, one per point of a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

PAPER, MIXES, AUTOSCALING, MACHINES, EPOCHS = "paper", "mixes", "autoscaling", "machines", "epochs"
FIXED, OTHER_RATES, ONLINE = "fixed-width", "fixed-width, another stream's rates", "online-width"
ONE_WIDTH = "one width for all"
BAND, SLOW_BAND = "efficiency band, every minute", "efficiency band, every 10 min"
"""Autoscaling as Pollux does it."""
FIFO, EQUI, SRPT = "fixed cluster, FIFO", "fixed cluster, EQUI", "fixed cluster, SRPT"
PER_APPLICATION = "one width per application"
AS_PUBLISHED = "autoscaler as published"
SPEEDUPS_KNOWN = "autoscaler, speedups known"
RESTARTS_KNOWN = "autoscaler, speedups and restarts known"
DRAWN = "85 jobs, draw"  # how the names of the streams drawn for the last experiment begin
BASELINES = (ONE_WIDTH, BAND, SLOW_BAND, FIFO, EQUI, SRPT)


class Point(NamedTuple):
    """One run of a stream under one policy."""

    experiment: str
    panel: str  # the stream or fleet: points of a panel are drawn together
    machines: str
    series: str
    knob: str  # the setting that led to this bill
    asked_gpus: float  # the budget that the policy was given; NaN where it takes none
    average_gpus: float
    """GPUs paid for until the last job was done, per hour of the time over which jobs arrived."""
    load_multiple: float  # the same, in multiples of the stream's load
    mean_hours: float
    p95_hours: float
    bound_hours: float
    """The least mean that any policy could have had on this very stream at this bill, with ideal machines."""
    over_bound: float  # the mean over this bound; below one would refute the theorem
    restart_share: float  # shares of the bill
    idle_share: float
    fragmentation_share: float
    resizes: int
    peak_gpus: int
    jobs: int


class Width(NamedTuple):
    """The optimum for one class at one budget, among real and among whole widths."""

    panel: str
    budget_gpus: float
    class_name: str
    real_gpus: float
    whole_gpus: float  # mean over the class's jobs, where two widths are mixed
    real_hours: float  # mean response of all classes, the same on each class's row
    whole_hours: float


class Check(NamedTuple):
    """The formula next to a simulation of the same widths."""

    panel: str
    budget_gpus: float
    formula_hours: float
    simulated_hours: float
    error_hours: float  # standard error of the simulated mean
    formula_gpus: float
    simulated_gpus: float
    over_bound: float  # the simulated mean over the formula for the jobs that really came
    jobs: int


class Ratio(NamedTuple):
    """A policy's response times over those of another at the same bill."""

    experiment: str
    panel: str
    machines: str
    series: str
    reference: str
    average_gpus: float
    load_multiple: float
    mean_ratio: float
    p95_ratio: float


class Contest(NamedTuple):
    """All ratios of one policy to another on one stream, summed up."""

    panel: str
    machines: str
    series: str
    reference: str
    points: int
    least: float
    median: float
    greatest: float
    p95_median: float


class Cost(NamedTuple):
    """What machines that are not ideal cost a policy at a bill of some multiple of the load."""

    panel: str
    machines: str
    series: str
    load_multiple: float
    mean_hours: float
    over_ideal: float  # the mean over that of the same policy at the same bill with ideal machines
    over_fixed: float  # the mean over fixed-width's at the same bill with the same machines


@dataclass(frozen=True, slots=True)
class BudgetReproduction:
    """All results of the experiments on streams, with their settings."""

    seed: int
    quick: bool
    machines: str  # the machines of the comparison that are not ideal
    points: tuple[Point, ...]
    widths: tuple[Width, ...]
    checks: tuple[Check, ...]
    ratios: tuple[Ratio, ...]
    contests: tuple[Contest, ...]
    costs: tuple[Cost, ...]
    epochs: tuple[Contest, ...]
    """Contests where restarts differ by application and speedups change while a job trains."""
    notes: tuple[str, ...]  # what was left out, and why; how speedups were read
