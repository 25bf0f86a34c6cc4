"""Exact simulation of a stream of jobs at one price, from event to event; `run.run_events` drives it.

The model:

- An allocator gives every job that is present a width; 0 means that it waits. It decides again whenever a
  job arrives or is done, a phase ends, a node is ready, and at a time for which it asked.
- As many nodes are rented as the widths need together, or as the allocator requests; `cluster` says how they
  come and go. While nodes are on their way, jobs run on what is ready: a job keeps its width, or
  waits, until its whole new width is free; earlier jobs go first, and a later one may take what an earlier
  one cannot use yet.
- A start takes its class's restart time, in which the width is paid for but makes no progress: the first
  start, going on after a wait half-way, and every change of a running job's width.
- Once the last job has arrived nothing is kept for jobs to come: idle nodes are given back at once, and of
  a fixed cluster only the nodes in use are paid for. The bill ends with the last job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.spot import Spot
from slacktide.allocators.view import (
    Allocator,
    Arrived,
    Decision,
    Finished,
    FleetView,
    JobColumns,
    Learning,
    Progressed,
    Sizing,
    Wanted,
    needs_sizes,
)
from slacktide.budget.cluster import Cluster
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, numbers_in_class
from slacktide.core.arrays import Ints, empty_columns
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError, shown
from slacktide.core.types import Allocation, Job, JobState, Phase
from slacktide.policies.view import View
from slacktide.results.stream import POOL, PREFIX, GpuHourBill, StreamRun
from slacktide.simulation.fleet import stream_kernel as kernel
from slacktide.simulation.fleet.stream_kernel import ArrivalColumns, EndedPhases, PresentJobs


class StreamRows(NamedTuple):
    """Rows of a view, one per job, made from its columns when they are read."""

    fleet: Fleet
    now_hours: float
    jobs: JobColumns

    def name(self, place: int) -> str:
        return f"{PREFIX}{self.jobs.ids[place]}"

    def view(self, place: int, spot: Spot) -> View:
        """Return a job's view; a stream has no slots and no market, so it has no pools and no next time."""
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
        """Return the template of the job's class, scaled to the job's work where that may be known."""
        template = self.fleet.classes[int(self.jobs.kind[place])].job
        if self.jobs.work_gpu_hours is None:
            return template
        size = float(self.jobs.work_gpu_hours[place]) / template.work_gpu_hours
        phases = tuple(Phase(part.work_gpu_hours * size, part.speedup) for part in template.parts)
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

    They are views of the arrays, so they stay current as long as that many jobs are present.
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
    """Return the widths of a mapping; a job that is not named keeps what it holds."""
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


ROOM = 256  # jobs that can be present before the arrays are made larger
NO_SPOT = Spot()  # a stream has none to hold


class StreamWorld:
    """The state of one run of a stream: its jobs and its cluster."""

    def __init__(
        self,
        stream: Stream,
        fleet: Fleet,
        allocator: Allocator,
        *,
        plain: bool,
        last_call: bool,
    ) -> None:
        """Begin; with `last_call` no machine is kept for jobs to come once the last job has arrived."""
        self.stream, self.fleet, self.last_call = stream, fleet, last_call
        self.sized = allocator if isinstance(allocator, Sizing) else None
        self.learner = allocator if isinstance(allocator, Learning) else None
        self.work_of_class = (
            np.array([one.work_gpu_hours for one in fleet.classes]) if needs_sizes(allocator) else None
        )
        self._kernel_step: Callable[..., kernel.StepResult] = kernel.step if plain else compiled(kernel.step)
        self._place: Callable[..., tuple[int, int]] = kernel.place if plain else compiled(kernel.place)
        self.cluster = Cluster.of(fleet)
        numbers = numbers_in_class(stream.class_index)
        self.arrivals = ArrivalColumns(stream.arrival_hours, stream.class_index, numbers, stream.size)
        self.finish_hours = np.full(len(stream), np.nan)
        self.busy = np.zeros(2)
        self.now_hours = 0.0
        self.present = self.came = self.held_gpus = self.resizes = 0
        self._make_room(empty_columns(PresentJobs, ROOM))

    def moments(self) -> Iterator[int]:
        if self.sized:
            yield 0  # a fixed cluster is rented before the first job
        while self.came < len(self.stream) or self.present:
            if self._step():
                yield self.came - self.present

    def _step(self) -> bool:
        """Go to the next event; return whether the allocator is to decide."""
        wake_hours = self._wake_hours()
        until, before, came = min(wake_hours, self.cluster.next_hours), self.now_hours, self.came
        if until == math.inf and came == len(self.stream) and not self.held_gpus:
            raise InputError(
                f"an allocator must let every job run eventually, got {self.present} jobs that wait forever"
            )
        step = self._kernel_step(
            self.jobs, self.arrivals, self.fleet.stages, self.finish_hours, self.ended, self.busy,
            self.present, came, before, until,
        )  # fmt: skip
        self.now_hours, self.present, self.came, ended = step
        self.cluster.pass_time(self.now_hours - before, self.held_gpus)
        if self.learner:
            self._report_events(self.learner, ended, came)
        if self.present == len(self.jobs.ids):
            self._make_room(PresentJobs._make(np.concatenate((one, np.zeros_like(one))) for one in self.jobs))
        nodes_came = self.cluster.arrive(self.now_hours)
        if self.learner and self.now_hours >= wake_hours:
            self._report_progress(self.learner, np.arange(self.present))
        return bool(ended or self.came > came or nodes_came or self.now_hours >= wake_hours)

    def _wake_hours(self) -> float:
        wake = self.learner.wake_hours if self.learner else math.inf
        return wake if wake > self.now_hours else math.inf

    def view(self) -> FleetView:
        """Return what the allocator may know now; one that sizes its cluster does so first."""
        cluster, jobs = self.cluster, self._columns()
        if not self.sized:
            return self._view(jobs, cluster.ready)
        nodes = cluster.nodes_for(self.sized.rent_gpus(self._view(jobs, cluster.ready)))
        cluster.resize(nodes, self.now_hours)
        return self._view(jobs, min(cluster.ready, nodes))

    def read(self, decision: Decision, view: FleetView) -> Ints:
        return widths_of(decision, view.jobs)

    def hold(self, wanted: Ints) -> None:
        """Rent what the widths need, and give jobs as much of that as is ready."""
        cluster = self.cluster
        if not self.sized:
            cluster.resize(cluster.nodes_for(int(wanted.sum())), self.now_hours)
        if self.last_call and self.came == len(self.stream):
            cluster.keep_nothing(self.now_hours)
        if self.learner:
            held = self.jobs.width[: self.present]
            self._report_progress(self.learner, np.flatnonzero((held != wanted) & (held > 0)))
        gpus = self.cluster.ready * self.cluster.node_gpus
        held_gpus, changes = self._place(self.jobs, self.fleet.stages, wanted, gpus)
        if held_gpus < 0:
            kind = self.fleet.classes[self.jobs.kind[changes]]
            raise InputError(
                f"an allocator must give widths that class {shown(kind.name)} may have, got {wanted[changes]}"
            )
        self.held_gpus = held_gpus
        self.resizes += changes

    def _columns(self) -> JobColumns:
        count = self.present
        columns = self.columns.get(count)
        if columns is None:
            columns = self.columns[count] = columns_of(self.shown, count)
        if self.work_of_class is None:
            return columns
        return columns._replace(work_gpu_hours=self.work_of_class[columns.kind] * self.jobs.size[:count])

    def _view(self, jobs: JobColumns, ready_nodes: int) -> FleetView:
        cluster = self.cluster
        return FleetView(
            now_hours=self.now_hours,
            fleet=self.fleet,
            jobs=jobs,
            due=range(self.present),
            ready_gpus=ready_nodes * cluster.node_gpus,
            rented_gpus=cluster.rented * cluster.node_gpus,
            spent_gpu_hours=cluster.billed_gpu_hours,
            spot=NO_SPOT,
            shown=StreamRows(self.fleet, self.now_hours, jobs),
        )

    def _report_events(self, learner: Learning, ended: int, came_before: int) -> None:
        now, rows, first = self.now_hours, self.ended, self.fleet.stages.first
        for row in range(ended):
            job, kind, stage = int(rows.ids[row]), int(rows.kind[row]), int(rows.stage[row])
            hours, work = float(rows.span_hours[row]), float(rows.span_gpu_hours[row])
            phase, width = stage - int(first[kind]), int(rows.width[row])
            learner.learn(Progressed(now, job, kind, phase, width, hours, work))
            if self.finish_hours[job] == now:
                learner.learn(Finished(now, job, kind))
        for job in range(came_before, self.came):
            learner.learn(Arrived(now, job, int(self.arrivals.kind[job])))

    def _report_progress(self, learner: Learning, places: Ints) -> None:
        if not len(places):
            return
        jobs, first = self.jobs, self.fleet.stages.first
        for job in places[jobs.span_hours[places] > 0].tolist():
            kind = int(jobs.kind[job])
            phase, width = int(jobs.stage[job] - first[kind]), int(jobs.width[job])
            hours, work = float(jobs.span_hours[job]), float(jobs.span_gpu_hours[job])
            progressed = Progressed(self.now_hours, int(jobs.ids[job]), kind, phase, width, hours, work)
            learner.learn(progressed)
            jobs.span_hours[job] = jobs.span_gpu_hours[job] = 0.0

    def _make_room(self, jobs: PresentJobs) -> None:
        self.jobs, self.ended = jobs, empty_columns(EndedPhases, len(jobs.ids))
        self.shown = PresentJobs._make(array.view() for array in jobs)  # the same arrays, read-only
        self.columns = dict[int, JobColumns]()  # what allocators see of them: [how many jobs are present]
        for array in self.shown:
            array.flags.writeable = False

    def result(self, name: str) -> StreamRun:
        cluster = self.cluster
        busy, restart = self.busy.tolist()
        return StreamRun(
            policy=name,
            stream=self.stream,
            response_hours=self.finish_hours - self.stream.arrival_hours,
            bill=GpuHourBill(
                gpu_hours=cluster.billed_gpu_hours,
                busy_gpu_hours=busy,
                restart_gpu_hours=restart,
                fragmentation_gpu_hours=cluster.fragmented_gpu_hours,
                idle_gpu_hours=cluster.idle_gpu_hours,
            ),
            peak_gpus=cluster.peak * cluster.node_gpus,
            resizes=self.resizes,
            end_hours=self.now_hours,
        )
