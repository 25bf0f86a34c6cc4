"""The numbers behind a back-test's pictures, before anything is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slacktide.arrays import Bools, Floats
from slacktide.errors import InputError
from slacktide.market.base import Pool
from slacktide.report import words
from slacktide.types import Job, Quote

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison
    from slacktide.results.run import Run

LONGEST_VIEW = 2.0
"""How many deadlines a picture shows at most: one run that is very late must not squeeze the rest."""


class Steps(NamedTuple):
    """A quantity that is constant between edges; there is one edge more than values."""

    values: Floats
    edges: Floats


class Path(NamedTuple):
    """Points to be joined or marked: hours since the start, and the share of the work done."""

    hours: Floats
    share: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Backdrop:
    """The market that a job met, as far as a picture shows it."""

    job: Job
    pool: Pool
    start_slot: int
    end_hours: float
    """Where the time axis ends."""
    quotes: tuple[Quote, ...]

    @property
    def edges(self) -> Floats:
        """When the quotes' slots begin, and when the last ends."""
        return np.arange(len(self.quotes) + 1, dtype=np.float64) * self.pool.slot_hours

    def offered(self) -> Steps:
        """Return the spot GPUs obtainable."""
        return Steps(np.array([float(quote.spot_gpus) for quote in self.quotes]), self.edges)

    def spot_price(self) -> Steps:
        return Steps(np.array([quote.spot_usd_per_gpu_hour for quote in self.quotes]), self.edges)

    def on_demand_price(self) -> Steps:
        return Steps(np.array([quote.on_demand_usd_per_gpu_hour for quote in self.quotes]), self.edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene(Backdrop):
    """One start of a back-test: the market it met and the runs that began there."""

    comparison: Comparison

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.comparison.detail


def scene(comparison: Comparison) -> Scene:
    """Set the scene of the start that was kept in detail; raises InputError when there is none."""
    if not comparison.detail or not all(run.slots for run in comparison.detail):
        raise InputError("a report must have one start with all its slots, got none; keep a run in detail")
    run = comparison.detail[0]
    pool = words.pool_of(comparison, run)
    ends = [end_hours(each, pool.slot_hours) for each in comparison.detail]
    end = shown_hours(comparison.job, max(ends))
    return Scene(
        comparison=comparison,
        job=comparison.job,
        pool=pool,
        start_slot=run.start_slot,
        end_hours=end,
        quotes=quotes_until(pool, run.start_slot, end),
    )


def shown_hours(job: Job, last_hours: float) -> float:
    """Return where the time axis ends for runs of which the last ended at this time."""
    return max(job.deadline_hours, min(last_hours, LONGEST_VIEW * job.deadline_hours))


def quotes_until(pool: Pool, start_slot: int, end_hours: float) -> tuple[Quote, ...]:
    """Return what the market offered from a slot on, for so many hours."""
    slots = max(1, math.ceil(end_hours / pool.slot_hours - 1e-6))
    return tuple(pool.quote(start_slot + slot) for slot in range(slots))


def end_hours(run: Run, slot_hours: float) -> float:
    """Return when a run ended, its work done or its money spent."""
    last = run.slots[-1]
    return last.slot * slot_hours + last.lived.stretch.held_hours


def held(run: Run, slot_hours: float) -> tuple[Steps, Steps]:
    """Return the spot and the on-demand GPUs a run held."""
    edges = np.append(np.array([float(record.slot) for record in run.slots]) * slot_hours, 0.0)
    edges[-1] = end_hours(run, slot_hours)
    spot = np.array([float(record.spot_gpus) for record in run.slots])
    on_demand = np.array([float(record.on_demand_gpus) for record in run.slots])
    return Steps(spot, edges), Steps(on_demand, edges)


def progress(run: Run, job: Job, slot_hours: float) -> Path:
    """Return a run's progress: level while it pauses, rising while it works, falling where work is lost."""
    hours: list[float] = []
    done: list[float] = []
    for record in run.slots:
        begin, lived = record.slot * slot_hours, record.lived.stretch
        paused = begin + lived.pause_hours
        hours += [begin, paused, paused + lived.productive_hours]
        done += [record.before.progress_gpu_hours] * 2 + [record.after.progress_gpu_hours]
    return Path(np.array(hours), np.array(done) / job.work_gpu_hours)


def preemptions(run: Run, job: Job, slot_hours: float) -> tuple[Path, Bools]:
    """Return where the market took GPUs away, at the progress that was left, and which took work too."""
    hit = [record for record in run.slots if record.lost_gpus]
    hours = np.array([record.slot * slot_hours for record in hit])
    left = np.array([record.before.progress_gpu_hours for record in hit]) / job.work_gpu_hours
    return Path(hours, left), np.array([record.lost_gpu_hours > 0 for record in hit], dtype=np.bool_)


def merged(*series: Steps) -> tuple[Steps, ...]:
    """Drop the edges at which none of the series changes: a month of slots becomes a few corners."""
    table = np.array([steps.values for steps in series])
    changes = np.append(True, np.any(table[:, 1:] != table[:, :-1], axis=0))
    edges = np.append(series[0].edges[:-1][changes], series[0].edges[-1])
    return tuple(Steps(values[changes], edges) for values in table)
