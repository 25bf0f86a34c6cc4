"""Summaries of a policy's runs over futures: percentiles, means, and what moving may save."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import Job
from slacktide.policies.view import Policy
from slacktide.results.plan import HeldAt, Moving, MovingSaving, Outcomes, Outlook, PoolAhead, Range
from slacktide.results.run import Run, column
from slacktide.simulation.plan.planned_job import PlannedJob
from slacktide.simulation.pool_options import PoolOptions


class TriedPolicy(NamedTuple):
    """Runs of one policy over all futures."""

    planned: PlannedJob  # the job, with the pool in which this policy stays
    policy: str
    runs: Sequence[Run]
    ready: Sequence[Policy] = ()  # the policy as it was prepared for each future; () for the clairvoyant
    history: Sequence[Run] | None = None
    """Its runs from recent starts of the real market; None for a job that may move."""

    @property
    def pool(self) -> str:
        """The pool in which it stays; empty: it moves, or there is one pool."""
        return self.planned.stays_in

    @property
    def cost(self) -> tuple[float, float]:
        """What it is ranked by, least first: share on time, then mean cost in USD."""
        on_time, usd = (float(np.mean(column(self.runs, name))) for name in ("on_time", "cost_usd"))
        return -on_time, usd

    def outlook(self) -> Outlook:
        moves, usd = (float(np.mean(column(self.runs, name))) for name in ("moves", "move_usd"))
        past = None if self.history is None else outcomes(self.history)
        return Outlook(self.policy, outcomes(self.runs), past, self.pool, moves, usd)


def outcomes(runs: Sequence[Run]) -> Outcomes:
    costs = column(runs, "cost_usd")
    return Outcomes(
        runs=len(runs),
        cost_usd=range_of_next(costs),
        finish_hours=range_of_next(column(runs, "finish_hours")),
        on_time_share=float(np.mean(column(runs, "on_time"))),
        mean_cost_usd=float(np.mean(costs)),
        mean_spot_gpu_hours=float(np.mean(column(runs, "spot_gpu_hours"))),
        mean_on_demand_gpu_hours=float(np.mean(column(runs, "on_demand_gpu_hours"))),
        mean_preemptions=float(np.mean(column(runs, "preemptions"))),
        mean_cost_error_usd=standard_error(costs),
    )


def standard_error(values: Floats) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def range_of_next(values: Floats) -> Range:
    """Return the values below which one more of the same kind lies in 10, 50 and 90 % of cases.

    One more value is equally likely to fall into any of the n + 1 gaps between n of them, so its percentile q
    is at place q (n + 1) of the sorted ones; the percentiles of the sample itself lie closer together (77 %
    of further values lie between the p10 and the p90 of fifty). A place between two is rounded, so that
    an unfinished run's infinity does not spoil its finite neighbours.
    """
    ordered = np.sort(values)
    places = (min(max(round(share * (len(ordered) + 1)), 1), len(ordered)) for share in (0.1, 0.5, 0.9))
    return Range(*(float(ordered[place - 1]) for place in places))


def held_over_time(job: Job, slot_hours: float, runs: Sequence[Run]) -> tuple[HeldAt, ...]:
    """Return the mean GPUs held in each slot until the deadline; the runs must have kept their slots."""
    slots = math.ceil(job.deadline_hours / slot_hours - 1e-6)
    held = np.zeros((2, slots))
    for run in runs:
        for record in run.slots[:slots]:
            share = record.lived.stretch.held_hours / slot_hours
            held[:, record.slot] += np.array([record.spot_gpus, record.on_demand_gpus]) * share
    held /= len(runs)
    spot, on_demand = held.tolist()
    return tuple(HeldAt(slot * slot_hours, spot[slot], on_demand[slot]) for slot in range(slots))


def moving(
    options: PoolOptions, tried: Sequence[TriedPolicy], stays: Sequence[TriedPolicy], best: TriedPolicy
) -> Moving:
    """Return what moving may save, and where the first policy that moves, else the clairvoyant, would be."""
    first = next((one for one in tried if not one.pool), best)
    held = _held(options, first.runs)
    return Moving(
        pools=tuple(_ahead(options, at, stay, held) for at, stay in enumerate(stays)),
        saving=_saving(tried),
        held=tuple((name, tuple(shares.tolist())) for name, shares in held.items()),
        slot_hours=options.slot_hours,
    )


def _ahead(options: PoolOptions, at: int, stay: TriedPolicy, held: Mapping[str, Floats]) -> PoolAhead:
    pool = options.pools[at]
    quote, (late, usd) = pool.quote(len(pool) - 1), stay.cost
    total = sum(float(shares.sum()) for shares in held.values())
    share = float(held[pool.name].sum()) / total if total > 0 else 0.0
    stays = usd if late <= -1.0 else None
    return PoolAhead(pool.name, quote.spot_gpus, quote.spot_usd_per_gpu_hour, stays, share)


def _held(options: PoolOptions, runs: Sequence[Run]) -> dict[str, Floats]:
    """Return for each pool the share of futures in which GPUs are held there, by slot until the deadline."""
    slot_hours = options.slot_hours
    slots = math.ceil(options.job.deadline_hours / slot_hours - 1e-6)
    held = {pool.name: np.zeros(slots) for pool in options.pools}
    for run in runs:
        for record in run.slots[:slots]:
            stretch = record.lived.stretch
            if stretch.gpus:
                held[stretch.pool][record.slot] += stretch.held_hours / slot_hours / len(runs)
    return held


def _saving(tried: Sequence[TriedPolicy]) -> MovingSaving | None:
    """Compare the best policy that moves with the best one that stays, future by future."""
    moved, stayed = [one for one in tried if not one.pool], [one for one in tried if one.pool]
    if not moved or not stayed:
        return None
    first, other = min(moved, key=lambda one: one.cost), min(stayed, key=lambda one: one.cost)
    less = column(other.runs, "cost_usd") - column(first.runs, "cost_usd")
    moving = float(np.mean(column(first.runs, "moves") > 0))
    return MovingSaving(float(np.mean(less)), standard_error(less), other.policy, other.pool, moving)
