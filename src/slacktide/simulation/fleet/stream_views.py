"""What an allocator is shown of a simulated stream, and how its answer is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.spot import Spot
from slacktide.allocators.view import Decision, JobColumns, Wanted
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Ints
from slacktide.core.errors import InputError, shown
from slacktide.core.types import Allocation, Job, JobState, Phase
from slacktide.policies.view import View
from slacktide.results.stretches import POOL, PREFIX
from slacktide.simulation.fleet.stream_kernel import PresentJobs


class StreamRows(NamedTuple):
    """The rows of a view, made of its columns when one is read."""

    fleet: Fleet
    now_hours: float
    jobs: JobColumns

    def name(self, place: int) -> str:
        """Return the name of the job at a place."""
        return f"{PREFIX}{self.jobs.ids[place]}"

    def view(self, place: int, spot: Spot) -> View:
        """Return its view; a stream has neither slots nor a market, so it has no pools and no next time."""
        return View(
            job=self._job(place),
            id=self.name(place),
            state=self._state(place),
            now_hours=self.now_hours - float(self.jobs.submitted_hours[place]),
            next_hours=math.inf,
            slot=0,
            slot_hours=math.inf,
            pools=(),
        )

    def _job(self, place: int) -> Job:
        """Return the class's template; scaled to the job's work where that may be known."""
        template = self.fleet.classes[int(self.jobs.kind[place])].job
        if self.jobs.work_gpu_hours is None:
            return template
        size = float(self.jobs.work_gpu_hours[place]) / template.work_gpu_hours
        phases = tuple(Phase(one.work_gpu_hours * size, one.speedup) for one in template.parts)
        return replace(template, phases=phases)

    def _state(self, place: int) -> JobState:
        jobs, done = self.jobs, float(self.jobs.progress_gpu_hours[place])
        return JobState(
            on_demand_gpus=int(jobs.on_demand_gpus[place]),
            pause_hours=float(jobs.pause_hours[place]),
            progress_gpu_hours=done,
            checkpointed_gpu_hours=done,
        )


def columns_of(jobs: PresentJobs, count: int) -> JobColumns:
    """Return the first jobs of the kernel's arrays as an allocator sees them, without their work.

    They are views of the arrays, so they stay true as time passes, for as long as that many are present.
    """
    no_spot = np.zeros(count, dtype=np.int64)
    no_spot.flags.writeable = False
    return JobColumns(
        ids=jobs.ids[:count],
        kind=jobs.kind[:count],
        number=jobs.number[:count],
        phase=jobs.phase[:count],
        submitted_hours=jobs.submitted_hours[:count],
        spot_gpus=no_spot,
        on_demand_gpus=jobs.width[:count],
        pause_hours=jobs.pause_hours[:count],
        progress_gpu_hours=jobs.progress_gpu_hours[:count],
        work_gpu_hours=None,
    )


def widths_of(decision: Decision, jobs: JobColumns) -> Ints:
    """Return the width that each job is to have. Raises InputError for what a stream cannot give."""
    if not isinstance(decision, Wanted):
        return _named_widths(decision, jobs)
    widths = np.ascontiguousarray(decision.on_demand_gpus, dtype=np.int64)
    if len(widths) != len(jobs.ids):
        raise InputError(
            f"an allocator must give a width to each of {len(jobs.ids)} jobs, got {len(widths)} widths"
        )
    if decision.spot_gpus is not None and np.any(decision.spot_gpus):
        raise _no_spot(int(np.max(decision.spot_gpus)))
    return widths


def _named_widths(decision: Mapping[str, Allocation], jobs: JobColumns) -> Ints:
    """Return the widths of a mapping; who is not named keeps what it holds."""
    widths = jobs.on_demand_gpus.copy()
    for name, wish in decision.items():
        if wish.spot_gpus:
            raise _no_spot(wish.spot_gpus)
        if wish.pool not in (None, POOL):
            raise InputError(
                f"{name}: the pool must be {POOL!r}, the only one of a stream, got {shown(wish.pool)}; "
                "moving to another pool is not possible yet"
            )
        widths[_place(name, jobs)] = wish.on_demand_gpus
    return widths


def _place(name: str, jobs: JobColumns) -> int:
    """Return the place of a job; ids ascend, so that naming a few of many jobs costs little."""
    number = name.removeprefix(PREFIX)
    if number.isdecimal() and name != number:
        place = int(np.searchsorted(jobs.ids, int(number)))
        if place < len(jobs.ids) and jobs.ids[place] == int(number):
            return place
    raise InputError(
        f"a decision must name jobs that are present, by the ids of their rows, got {shown(name)}"
    )


def _no_spot(gpus: int) -> InputError:
    return InputError(
        f"spot_gpus must be 0 in the simulation of a stream, which has no spot market, got {gpus}; "
        "ask for on-demand GPUs"
    )
