"""The problem that a bound is computed for: a market with its whole future, kinds of jobs, and the jobs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints


class Future(NamedTuple):
    """What every pool offers in each slot: [slot, pool]. Compiled code reads it."""

    slot_hours: float
    spot_usd: Floats
    on_demand_usd: Floats
    spot_gpus: Ints
    after_usd: Floats
    """[pool]: the least that a GPU-hour costs after the last slot; capacity is not limited there."""


class Shapes(NamedTuple):
    """What jobs are like, by kind."""

    rate: Floats  # [kind, pool, gpus]: the most progress per hour; 0 where the width is not allowed
    restart_hours: Floats
    shrink_hours: Floats


class Demand(NamedTuple):
    """The jobs, one entry each."""

    kind: Ints
    work_gpu_hours: Floats
    submitted_hours: Floats
    deadline_hours: Floats
    """By when it must be done, on the clock of the market; infinite: as soon as possible."""
    weight: Floats  # how much an hour of its response counts; not used for jobs with a deadline

    @property
    def hard(self) -> Bools:
        """Which jobs must be done by a time."""
        found: Bools = np.isfinite(self.deadline_hours)
        return found


class Problem(NamedTuple):
    """Jobs on a market that is known to its end."""

    future: Future
    shapes: Shapes
    demand: Demand

    @property
    def weight(self) -> float:
        """The weights of all jobs without a deadline together."""
        return float(self.demand.weight[~self.demand.hard].sum())


def trivial_hours(problem: Problem) -> float:
    """Return the mean response of jobs that all start at once on their fastest width and are never stopped.

    No jobs can be faster, however much money and spot there is.
    """
    demand, shapes = problem.demand, problem.shapes
    fastest = shapes.rate.max(axis=(1, 2))[demand.kind]
    hours = shapes.restart_hours[demand.kind] + demand.work_gpu_hours / fastest
    free = ~demand.hard
    return float((hours * demand.weight)[free].sum() / problem.weight)
