"""A stream of jobs at one price, event by event and exactly: what `run` drives for `run_events`.

The model:

- An allocator gives every job that is present a width; 0 means that it waits. It decides again whenever a
  job arrives or is done, a phase ends, a node is ready, and when it set itself a time to wake.
- As many nodes are rented as the widths need together, or as the allocator requests; `cluster` says how they
  come and go. While nodes are on their way, jobs run on what is there: a job keeps its width, or waits,
  until all that it is to have is free; earlier jobs go first, and a later one may take what an earlier one
  cannot use yet.
- A start costs its class's restart time without progress, with the width paid for: the first one, going on
  after a wait half-way, and every change of a running job's width.
- Once the last job has arrived nothing is kept for jobs to come: idle nodes are given back at once, and of
  a fixed cluster only the nodes in use are paid for. The bill ends with the last job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

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
    needs_sizes,
)
from slacktide.budget.cluster import Cluster
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, numbers_in_class
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError, shown
from slacktide.results.fleets.stream import GpuHourBill, StreamRun
from slacktide.simulation.fleet import stream_kernel as kernel
from slacktide.simulation.fleet.stream_kernel import ArrivalColumns, EndedPhases, PresentJobs
from slacktide.simulation.fleet.stream_views import StreamRows, columns_of, widths_of
from slacktide.simulation.fleet.stretch_log import StretchLog

ROOM = 256  # jobs that can be present before the arrays are made larger


@dataclass(slots=True)
class StreamWorld:
    """Where the jobs of a stream and its cluster stand in one run."""

    stream: Stream
    fleet: Fleet
    allocator: Allocator
    plain: bool
    last_call: bool  # whether nothing is kept for jobs to come once the last one has
    book: StretchLog | None
    step: Callable[..., kernel.StepResult] = field(init=False)
    """The kernel's functions, compiled unless the run is a plain one."""
    place: Callable[..., tuple[int, int]] = field(init=False)
    sized: Sizing | None = field(init=False)  # the allocator, where it also decides how much is rented
    learner: Learning | None = field(init=False)  # the allocator, where it learns from what happens
    work_of_class: Floats | None = field(init=False)
    """Mean work of a job of each class, for an allocator that may know sizes."""
    cluster: Cluster = field(init=False)
    jobs: PresentJobs = field(init=False)
    ended: EndedPhases = field(init=False)
    shown: PresentJobs = field(init=False)  # the same arrays, read-only
    columns: dict[int, JobColumns] = field(init=False)
    """... and what allocators see of them: [how many jobs are present]."""
    arrivals: ArrivalColumns = field(init=False)
    finish_hours: Floats = field(init=False)
    busy: Floats = field(default_factory=lambda: np.zeros(2))
    now_hours: float = 0.0
    present: int = 0
    came: int = 0
    held_gpus: int = 0
    resizes: int = 0
    no_spot: Spot = field(default_factory=Spot)  # a stream has no spot to hold

    def __post_init__(self) -> None:
        stream = self.stream
        self.step = kernel.step if self.plain else compiled(kernel.step)
        self.place = kernel.place if self.plain else compiled(kernel.place)
        self.sized = self.allocator if isinstance(self.allocator, Sizing) else None
        self.learner = self.allocator if isinstance(self.allocator, Learning) else None
        if needs_sizes(self.allocator):
            self.work_of_class = np.array([one.work_gpu_hours for one in self.fleet.classes])
        else:
            self.work_of_class = None
        self.cluster = Cluster.of(self.fleet)
        self.arrivals = ArrivalColumns(
            stream.arrival_hours, stream.class_index, numbers_in_class(stream.class_index), stream.size
        )
        self.finish_hours = np.full(len(stream), np.nan)
        self._make_room(PresentJobs.empty(ROOM))

    def moments(self) -> Iterator[int]:
        """Go from event to event, and yield where the allocator is to decide: how many jobs are done."""
        if self.sized:
            yield 0  # a fixed cluster is there before the first job
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
        step = self.step(
            self.jobs, self.arrivals, self.fleet.stages, self.finish_hours, self.ended, self.busy,
            self.present, came, before, until,
        )  # fmt: skip
        self.now_hours, self.present, self.came, ended = step
        self.cluster.pass_time(self.now_hours - before, self.held_gpus)
        if self.book:
            self.book.site(before, self.now_hours, self.cluster.unused(self.held_gpus))
            self._note(ended)
        if self.learner:
            self._report_events(self.learner, ended, came)
        if self.present == len(self.jobs.ids):
            self._make_room(self.jobs.grown())
        nodes_came = self.cluster.arrive(self.now_hours)
        if self.learner and self.now_hours >= wake_hours:
            self._report_progress(self.learner, np.arange(self.present))
        return bool(ended or self.came > came or nodes_came or self.now_hours >= wake_hours)

    def _wake_hours(self) -> float:
        wake = self.learner.wake_hours if self.learner else math.inf
        return wake if wake > self.now_hours else math.inf

    def view(self) -> FleetView:
        """Return what the allocator may know now, with the nodes rented that it wants to keep."""
        cluster, jobs = self.cluster, self._columns()
        if not self.sized:
            return self._view(jobs, cluster.ready)
        nodes = cluster.nodes_for(self.sized.rent_gpus(self._view(jobs, cluster.ready)))
        cluster.resize(nodes, self.now_hours)
        return self._view(jobs, min(cluster.ready, nodes))

    def read(self, decision: Decision, view: FleetView) -> Ints:
        """Return the width that a decision gives each job."""
        return widths_of(decision, view.jobs)

    def hold(self, wanted: Ints) -> None:
        """Rent what the widths need, and give jobs what is there of them."""
        cluster = self.cluster
        if not self.sized:
            cluster.resize(cluster.nodes_for(int(wanted.sum())), self.now_hours)
        if self.last_call and self.came == len(self.stream):
            cluster.keep_nothing(self.now_hours)
        if self.learner:
            held = self.jobs.width[: self.present]
            self._report_progress(self.learner, np.flatnonzero((held != wanted) & (held > 0)))
        gpus = self.cluster.ready * self.cluster.node_gpus
        held_gpus, changes = self.place(self.jobs, self.fleet.stages, wanted, gpus)
        if held_gpus < 0:
            one = self.fleet.classes[self.jobs.kind[changes]]
            raise InputError(
                f"an allocator must give widths that class {shown(one.name)} may have, got {wanted[changes]}"
            )
        self.held_gpus = held_gpus
        self.resizes += changes
        if self.book:
            self._note(0)

    def _note(self, ends: int) -> None:
        assert self.book is not None
        self.book.jobs(self.jobs, self.present, self.ended, ends, self.finish_hours, self.now_hours)

    def _columns(self) -> JobColumns:
        """Return the jobs that are present as an allocator may see them."""
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
            spot=self.no_spot,
            shown=StreamRows(self.fleet, self.now_hours, jobs),
        )

    def _report_events(self, learner: Learning, ended: int, came_before: int) -> None:
        """Report to an allocator what ended and what came."""
        now, rows, first = self.now_hours, self.ended, self.fleet.stages.first
        for row in range(ended):
            job, one, stage = int(rows.ids[row]), int(rows.kind[row]), int(rows.stage[row])
            hours, work = float(rows.span_hours[row]), float(rows.span_gpu_hours[row])
            phase, width = stage - int(first[one]), int(rows.width[row])
            learner.learn(Progressed(now, job, one, phase, width, hours, work))
            if self.finish_hours[job] == now:
                learner.learn(Finished(now, job, one))
        for job in range(came_before, self.came):
            learner.learn(Arrived(now, job, int(self.arrivals.kind[job])))

    def _report_progress(self, learner: Learning, places: Ints) -> None:
        """Report to an allocator what jobs did since the last report."""
        if not len(places):
            return
        jobs, first = self.jobs, self.fleet.stages.first
        for job in places[jobs.span_hours[places] > 0].tolist():
            one = int(jobs.kind[job])
            phase, width = int(jobs.stage[job] - first[one]), int(jobs.width[job])
            hours, work = float(jobs.span_hours[job]), float(jobs.span_gpu_hours[job])
            learner.learn(Progressed(self.now_hours, int(jobs.ids[job]), one, phase, width, hours, work))
            jobs.span_hours[job] = jobs.span_gpu_hours[job] = 0.0

    def _make_room(self, jobs: PresentJobs) -> None:
        self.jobs, self.ended = jobs, EndedPhases.empty(len(jobs.ids))
        self.shown = PresentJobs._make(array.view() for array in jobs)
        self.columns = {}
        for array in self.shown:
            array.flags.writeable = False

    def result(self, name: str, usd_per_gpu_hour: float) -> StreamRun:
        """Sum the run up; stretches are kept at a price per GPU-hour."""
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
            kept=self.book.kept(usd_per_gpu_hour) if self.book else None,
        )
