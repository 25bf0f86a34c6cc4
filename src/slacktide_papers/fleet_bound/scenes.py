"""The bound below a fleet's mean response, for a scene of the simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slacktide.allocators.site.job_tables import JobTables, work_of
from slacktide.core.arrays import Bools
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.simulation.fleet.scene import FleetScene
from slacktide_papers.fleet_bound.climb import ITERATIONS, Bound, Progress, bound_below, bounds_below
from slacktide_papers.fleet_bound.problem import Demand, Future, Problem, Shapes

TAIL_HOURS = 36.0
"""How long after the last arrival the market is looked at slot by slot; spot is never short after that."""


def fleet_bound(
    scene: FleetScene, budget_usd: float, *, iterations: int = ITERATIONS, progress: Progress | None = None
) -> Bound:
    """Return a mean response of jobs without a deadline that no allocator can beat on this scene.

    It holds for all allocators that spend at most this budget over the whole run and meet every hard
    deadline.
    """
    return bound_below(problem_of(scene), budget_usd, iterations, progress)


def fleet_bounds(
    scene: FleetScene, budgets_usd: Sequence[float], *, iterations: int = ITERATIONS
) -> list[Bound]:
    """Return bounds for several budgets, each from the prices of the one before: near budgets cost little."""
    return bounds_below(problem_of(scene), budgets_usd, iterations)


def problem_of(scene: FleetScene, tail_hours: float = TAIL_HOURS) -> Problem:
    """Return a scene as a problem for the bound.

    What the bound leaves out makes jobs faster or cheaper: moves between pools take no time and cost nothing,
    a loss takes no work back, every phase is as fast as the fastest, on demand never runs out, only seconds
    are paid where whole slots are, and what is done for jobs with a soft deadline costs nothing.
    """
    jobs, kinds = scene.job_tables(), scene.kinds
    hard = np.isfinite(jobs.deadline_hours) & (jobs.worthless_hours <= jobs.deadline_hours)
    counted = hard | ~np.isfinite(jobs.deadline_hours)
    if not (~hard & counted).any():
        raise InputError("a fleet must have a job without a deadline to bound its response, got none")
    work = work_of(kinds, jobs)
    demand = Demand(
        kind=jobs.kind[counted],
        work_gpu_hours=work[counted],
        submitted_hours=jobs.submitted_hours[counted],
        deadline_hours=jobs.deadline_hours[counted],
        weight=jobs.weight[counted],
    )
    shapes = Shapes(
        np.ascontiguousarray(kinds.rate.max(axis=2)),
        kinds.restart_hours,
        np.minimum(kinds.shrink_hours, kinds.restart_hours),
    )
    return Problem(_future(scene, _slots(scene, jobs, hard, tail_hours)), shapes, demand)


def _slots(scene: FleetScene, jobs: JobTables, hard: Bools, tail_hours: float) -> int:
    """Return how many slots are looked at: all deadlines lie in them."""
    last = float(np.max(jobs.deadline_hours, where=hard, initial=0.0)) + TIME_TOLERANCE_HOURS
    return math.ceil(max(last, scene.hours + tail_hours) / scene.slot_hours) + 1


def _future(scene: FleetScene, slots: int) -> Future:
    quotes, count = scene.quotes, len(scene.quotes.spot_usd)
    at = np.arange(slots)
    place = at % count if scene.again else np.minimum(at, count - 1)
    there = scene.again | (at < count)
    spot_gpus = np.where(there[:, None], quotes.spot_gpus[place], 0)
    ends = not scene.again and slots >= count
    cheapest = (
        quotes.on_demand_usd[-1] if ends else np.minimum(quotes.spot_usd, quotes.on_demand_usd).min(axis=0)
    )
    return Future(
        scene.slot_hours,
        np.ascontiguousarray(quotes.spot_usd[place]),
        np.ascontiguousarray(quotes.on_demand_usd[place]),
        np.ascontiguousarray(spot_gpus),
        np.ascontiguousarray(cheapest),
    )
