"""What a run of a fleet came to: how long jobs took, what they cost, which promises were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.types import TIME_TOLERANCE_HOURS, Reason, Refusal
from slacktide.results.fleets.stream import Responses


class SlotRecords(NamedTuple):
    """What an allocator said of itself and the fleet at the slots of a run; one entry a slot."""

    hours: Floats
    spent_usd: Floats  # in the period of the budget
    reserved_usd: Floats
    usd_per_job_hour: Floats
    """What an hour of a job's waiting is worth; not a number where the allocator has no such price."""
    waiting: Ints  # jobs that hold nothing
    present: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints
    offered_gpus: Ints  # spot that all pools offer


class HeldStretches(NamedTuple):
    """All stretches in which a job held something, in the order in which they began; columns."""

    job: Ints
    slot: Ints
    from_hours: Floats
    to_hours: Floats
    pool: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints
    usd: Floats
    pause_hours: Floats


@dataclass(frozen=True)
class FleetRun:
    """A fleet under one allocator; arrays are in the order of the jobs' submission."""

    policy: str
    submitted_hours: Floats
    deadline_hours: Floats  # on the clock of the run; infinite without one
    hard: Bools
    kind: Ints
    work_gpu_hours: Floats
    finish_hours: Floats  # on the clock of the run; infinite where a job was refused, stopped or never done
    cost_usd: Floats
    on_demand_usd: Floats
    spot_gpu_hours: Floats
    on_demand_gpu_hours: Floats
    pause_gpu_hours: Floats
    losses: Ints
    starts: Ints
    refused: dict[int, Refusal]  # jobs that could not be promised, by their number
    moments: SlotRecords
    most_spent_share: float  # the greatest share of a period's budget that was ever spent in it
    held: HeldStretches | None = field(default=None, repr=False)  # all that happened, where the run kept it
    reasons: Sequence[tuple[float, int, Reason]] = field(default=(), repr=False)
    """When which job was given something else and why, where the run kept it."""

    @property
    def best_effort(self) -> Bools:
        """Which jobs have no deadline."""
        return ~np.isfinite(self.deadline_hours)

    @property
    def admitted(self) -> Bools:
        """Which jobs were taken in."""
        found = np.ones(len(self.kind), dtype=np.bool_)
        found[list(self.refused)] = False
        return found

    @property
    def response_hours(self) -> Floats:
        """How long each job took from its submission to its end."""
        hours: Floats = self.finish_hours - self.submitted_hours
        return hours

    @cached_property
    def responses(self) -> Responses:
        """How long jobs without a deadline took."""
        return Responses.of(self.response_hours[self.best_effort & self.admitted])

    @property
    def late(self) -> Ints:
        """The numbers of admitted jobs with a hard deadline that were not done by it."""
        in_time = self.finish_hours <= self.deadline_hours + TIME_TOLERANCE_HOURS
        found: Ints = np.flatnonzero(self.hard & self.admitted & ~in_time)
        return found

    @property
    def spent_usd(self) -> float:
        """What all jobs cost."""
        return float(self.cost_usd.sum())

    @property
    def on_demand_share(self) -> float:
        """The share of the money that went to on-demand GPUs."""
        return float(self.on_demand_usd.sum()) / self.spent_usd if self.spent_usd else 0.0

    @property
    def hours(self) -> float:
        """The time over which jobs came."""
        return float(self.submitted_hours[-1])
