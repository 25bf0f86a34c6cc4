"""What a later deadline, or another width, would change in the cost: the same simulated futures for each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.policies.base import ForeseeingPolicy
from slacktide.policies.view import Policy
from slacktide.results.plan import CurvePoint
from slacktide.results.runs import column
from slacktide.simulation import batch, compare
from slacktide.simulation.plain import Setting
from slacktide.simulation.plan.scenarios import scenarios

FUTURES = 24
DEADLINE_SHARES = (0.85, 1.0, 1.125, 1.25, 1.5)
WIDTH_SHARES = (0.5, 0.625, 0.75, 0.875, 1.0)
ROUND_HOURS = 0.25
"""Deadlines are tried at whole quarters of an hour."""


def against_deadline(
    job: Job, place: Pool, neighbours: tuple[Pool, ...], policy: Policy
) -> tuple[CurvePoint, ...]:
    """Return what the job would cost with nearer and later deadlines."""
    if math.isinf(job.deadline_hours):
        return ()
    jobs = [_by(job, share) for share in DEADLINE_SHARES]
    return _curve(job, jobs, place, neighbours, policy, lambda one: one.deadline_hours)


def against_width(
    job: Job, place: Pool, neighbours: tuple[Pool, ...], policy: Policy
) -> tuple[CurvePoint, ...]:
    """Return what the job would cost with fewer GPUs at the most."""
    tops = sorted({_top(job, share) for share in WIDTH_SHARES})
    jobs = [dataclasses.replace(job, widths=tuple(n for n in job.widths if n <= top)) for top in tops]
    return _curve(job, jobs, place, neighbours, policy, lambda one: float(one.max_gpus))


def _by(job: Job, share: float) -> Job:
    """Return the job with its deadline, and when it is worthless, moved."""
    if share == 1.0:
        return job
    hours = max(ROUND_HOURS, round(job.deadline_hours * share / ROUND_HOURS) * ROUND_HOURS)
    worthless = job.worthless_after_hours
    later = None if worthless is None else worthless + hours - job.deadline_hours
    return dataclasses.replace(job, deadline_hours=hours, worthless_after_hours=later)


def _top(job: Job, share: float) -> int:
    """Return the widest width of the job that is at most this share of its widest, or its narrowest."""
    return max((n for n in job.widths if n <= share * job.max_gpus), default=min(job.widths))


def _curve(
    job: Job,
    jobs: Sequence[Job],
    place: Pool,
    neighbours: tuple[Pool, ...],
    policy: Policy,
    at: Callable[[Job], float],
) -> tuple[CurvePoint, ...]:
    """Run each of these jobs over the same futures; each point is told beside the job as it is.

    Their work is taken as said: what matters is how points differ, and certain work is quicker to solve for.
    """
    tried = [dataclasses.replace(one, work_spread=0.0) for one in jobs if could_be_in_time(one)]
    longest = max(tried, key=lambda one: one.deadline_hours, default=job)
    drawn, start = scenarios(
        dataclasses.replace(job, deadline_hours=longest.deadline_hours, worthless_after_hours=None),
        place, neighbours, paths=FUTURES, seed=1,
    )  # fmt: skip
    setting = Setting(neighbours=neighbours)
    acting = _coarser(policy)
    costs = {}
    for one in tried:
        runs = batch.run_futures(one, drawn, compare.guarded(acting, one), start, setting=setting)
        costs[at(one)] = column(runs, "cost_usd")
    base = costs.get(at(job))
    return tuple(_point(x, usd, base) for x, usd in sorted(costs.items())) if base is not None else ()


def could_be_in_time(job: Job) -> bool:
    """Whether on demand from the start would meet the deadline."""
    return job.restart_hours + job.work_hours(job.fastest_width) <= job.deadline_hours


def _coarser(policy: Policy) -> Policy:
    """Return a policy that is quicker to solve and hardly worse: all points of a curve are made with it."""
    return policy.coarser() if isinstance(policy, ForeseeingPolicy) else policy


def _point(at: float, usd: Floats, base: Floats) -> CurvePoint:
    more = usd - base
    return CurvePoint(
        at=at,
        mean_cost_usd=float(usd.mean()),
        p10_cost_usd=float(np.percentile(usd, 10)),
        p90_cost_usd=float(np.percentile(usd, 90)),
        more_usd=float(more.mean()),
        more_error_usd=float(more.std(ddof=1) / math.sqrt(len(more))),
    )
