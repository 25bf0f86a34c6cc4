"""The numbers behind pictures of runs from one start, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.report import words
from slacktide.results.course import course_of
from slacktide.results.run import RunResult

LONGEST_VIEW = 2.0
"""A picture ends at this many deadlines at the latest: one very late run must not squeeze the others."""


class Steps(NamedTuple):
    """A quantity that is constant between edges; there is one edge more than values."""

    values: Floats
    edges: Floats


class Curve(NamedTuple):
    """Points to be joined: hours since the start, and an amount."""

    hours: Floats
    amount: Floats


@dataclass(frozen=True, slots=True)
class Scene:
    """The runs of one job from one start, and the market that they met."""

    runs: tuple[RunResult, ...]
    end_hours: float  # where the time axis ends
    quotes: tuple[Quote, ...]

    @property
    def job(self) -> Job:
        return self.runs[0].job

    @property
    def pool(self) -> Pool:
        return self.runs[0].pool

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools among which a run could move; empty where all runs stay in one."""
        return next((run.pools for run in self.runs if run.pools), ())

    @property
    def start(self) -> datetime:
        """The market's time at which the job began."""
        first = self.runs[0]
        return first.pool.time(first.start_slot) - timedelta(hours=first.origin_hours)

    @property
    def edges(self) -> Floats:
        """When each quote's slot begins, and when the last ends; 0 for a slot that began before the job."""
        slots = np.arange(len(self.quotes) + 1, dtype=np.float64)
        return np.maximum(0.0, slots * self.pool.slot_hours + self.runs[0].origin_hours)

    def offered(self) -> Steps:
        """Return the spot GPUs available."""
        return Steps(np.array([float(quote.spot_gpus) for quote in self.quotes]), self.edges)

    def spot_price(self) -> Steps:
        """Return what a spot GPU costs."""
        return Steps(np.array([quote.spot_usd_per_gpu_hour for quote in self.quotes]), self.edges)

    def on_demand_price(self) -> Steps:
        """Return what a GPU on demand costs."""
        return Steps(np.array([quote.on_demand_usd_per_gpu_hour for quote in self.quotes]), self.edges)


def scene(runs: Sequence[RunResult]) -> Scene:
    """Return the scene of runs that began together; raises InputError when there is nothing to show."""
    if not runs or not all(run.laps for run in runs):
        raise InputError("a picture must show at least one run with all its stretches, got none")
    job, first = runs[0].job, runs[0]
    last = max(run.laps[-1].priced.stretch.to_hours for run in runs)
    due = job.deadline_hours
    end = last if words.open_ended(job) else max(due, min(last, LONGEST_VIEW * due))
    slots = max(1, math.ceil((end - first.origin_hours) / first.pool.slot_hours - 1e-6))
    quotes = tuple(first.pool.quote(first.start_slot + slot) for slot in range(slots))
    return Scene(tuple(runs), end, quotes)


def held(run: RunResult) -> tuple[Steps, Steps]:
    """Return the spot and the on-demand GPUs held; none between stretches."""
    return _steps(run, "spot_gpus"), _steps(run, "on_demand_gpus")


def offered_to(run: RunResult) -> Steps:
    """Return the spot GPUs available in the pool where the run was, while it lasted."""
    return _steps(run, "offered_spot_gpus")


def _steps(run: RunResult, name: str) -> Steps:
    """Return an attribute of the run's course as steps; it is 0 from the start to the first point."""
    hours, values = _course(run, name)
    return Steps(values[:-1], np.maximum.accumulate(hours))


def _course(run: RunResult, name: str) -> Curve:
    """Return an attribute of the points of a run's course, after a 0 at the start."""
    points = course_of(run)
    hours, amount = ([0.0, *(getattr(point, of) for point in points)] for of in ("hours", name))
    return Curve(np.array(hours), np.array(amount, dtype=np.float64))


def done(run: RunResult) -> Curve:
    """Return the work done: level while it pauses, rising while it works, falling at a loss.

    There is a point at the deadline, where the straight line that it is compared with bends.
    """
    hours, done = _course(run, "progress_gpu_hours")
    due = run.job.deadline_hours
    place = int(np.searchsorted(hours, due))
    if 0 < place < len(hours):
        done = np.insert(done, place, np.interp(due, hours, done))
        hours = np.insert(hours, place, due)
    return Curve(hours, done)


def left_by_losses(run: RunResult) -> Curve:
    """Return the work that was left after each loss of work."""
    hit = [decision for decision in run.losses if decision.lost_gpu_hours > 0]
    return Curve(np.array([one.hours for one in hit]), np.array([one.done_gpu_hours for one in hit]))


def share(work: Curve, job: Job) -> Curve:
    """Return work done as its share of all work."""
    return Curve(work.hours, work.amount / job.work_gpu_hours)


def ahead(work: Curve, job: Job) -> Curve:
    """Return by how many GPU-hours work done is ahead of the straight line; negative: behind it."""
    line = np.array([job.line_gpu_hours(hours) for hours in work.hours.tolist()])
    return Curve(work.hours, work.amount - line)


def spent(run: RunResult) -> Curve:
    """Return the money spent over time: evenly in each stretch, and none between them."""
    return _course(run, "cost_usd")


def merged(*series: Steps) -> tuple[Steps, ...]:
    """Drop the edges at which none of the series changes: a month of slots becomes a few corners."""
    table = np.array([steps.values for steps in series])
    changes = np.append(True, np.any(table[:, 1:] != table[:, :-1], axis=0))
    edges = np.append(series[0].edges[:-1][changes], series[0].edges[-1])
    return tuple(Steps(values[changes], edges) for values in table)


MOST_NAMED = 4  # how many pools are named of those between which a run moved


def whereabouts(run: RunResult) -> str:
    """Say in which pool a run was, or from which to which it moved."""
    pools = tuple(stay.pool for stay in run.stays) or (run.pool.name,)
    named = [words.plain(name, 40) for name in pools]
    if len(named) == 1:
        return f"pool {named[0]}"
    more = [] if len(named) <= MOST_NAMED else [f"{len(named) - MOST_NAMED} more moves"]
    return f"pools {', then '.join([*named[:MOST_NAMED], *more])}"
