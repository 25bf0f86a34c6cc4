"""Writing down every stretch of a simulated stream: what each job held and did, and what stayed unused.

A stretch of a job lasts for as long as its width and its phase do. It is written when it ends, from what the
job's pause and progress were when it began: so a run that keeps no book pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slacktide.budget.cluster import Unused
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.results.stretches import SITE, KeptStretches, StretchColumns
from slacktide.simulation.fleet.stream_kernel import EndedPhases, PresentJobs

ROOM = 1024  # stretches that can be written before the arrays are made larger


class OpenStretches(NamedTuple):
    """How the stretch that each job of the stream is in began."""

    since_hours: Floats  # negative for a job that has not come yet
    gpus: Ints
    phase: Ints
    pause_hours: Floats
    progress_gpu_hours: Floats
    pause_left_hours: Floats
    """What is left of the pause by now: a change of width has replaced it when the stretch is written."""

    @classmethod
    def none(cls, jobs: int) -> OpenStretches:
        """Return room for the jobs of a stream, of which none has come."""
        return cls(np.full(jobs, -1.0), *np.zeros((2, jobs), dtype=np.int64), *np.zeros((3, jobs)))


class WrittenStretches(NamedTuple):
    """The stretches of jobs that have ended, in that order; arrays with room for more."""

    job: Ints
    gpus: Ints
    from_hours: Floats
    to_hours: Floats
    pause_hours: Floats
    gained_gpu_hours: Floats

    @classmethod
    def empty(cls, room: int) -> WrittenStretches:
        """Return room for this many stretches."""
        return cls(*np.zeros((2, room), dtype=np.int64), *np.zeros((4, room)))

    def grown(self) -> WrittenStretches:
        """Return the same stretches with twice the room."""
        return WrittenStretches._make(np.concatenate((column, np.zeros_like(column))) for column in self)


@compilable
def write(
    opened: OpenStretches,
    written: WrittenStretches,
    count: int,
    jobs: PresentJobs,
    present: int,
    ended: EndedPhases,
    ends: int,
    finish_hours: Floats,
    now_hours: float,
) -> int:
    """End the stretches of jobs that are done or that hold or do something else by now; begin the next ones.

    Called after each step and after each placing. Returns how many stretches are written.
    """
    for row in range(ends):
        job = ended.ids[row]
        if finish_hours[job] == now_hours:
            count = end(opened, written, count, job, now_hours, 0.0, ended.progress_gpu_hours[row])
    for place in range(present):
        job = jobs.ids[place]
        width = jobs.width[place]
        progress = jobs.progress_gpu_hours[place]
        if opened.since_hours[job] < 0.0:
            begin(opened, job, jobs, place, jobs.submitted_hours[place])
        elif opened.gpus[job] != width or opened.phase[job] != jobs.phase[place]:
            # A change of width has overwritten the pause, so what was left of the old one was kept aside.
            left = jobs.pause_hours[place] if opened.gpus[job] == width else opened.pause_left_hours[job]
            count = end(opened, written, count, job, now_hours, left, progress)
            begin(opened, job, jobs, place, now_hours)
        opened.pause_left_hours[job] = jobs.pause_hours[place]
    return count


@compilable
def begin(opened: OpenStretches, job: int, jobs: PresentJobs, place: int, now_hours: float) -> None:
    """Remember how a job's stretch begins."""
    opened.since_hours[job] = now_hours
    opened.gpus[job] = jobs.width[place]
    opened.phase[job] = jobs.phase[place]
    opened.pause_hours[job] = jobs.pause_hours[place]
    opened.progress_gpu_hours[job] = jobs.progress_gpu_hours[place]


@compilable
def end(
    opened: OpenStretches,
    written: WrittenStretches,
    count: int,
    job: int,
    now_hours: float,
    pause_left_hours: float,
    progress_gpu_hours: float,
) -> int:
    """Write a job's stretch down, unless it was no time at all; return how many are written."""
    if now_hours <= opened.since_hours[job]:
        return count
    written.job[count] = job
    written.gpus[count] = opened.gpus[job]
    written.from_hours[count] = opened.since_hours[job]
    written.to_hours[count] = now_hours
    written.pause_hours[count] = opened.pause_hours[job] - pause_left_hours
    written.gained_gpu_hours[count] = progress_gpu_hours - opened.progress_gpu_hours[job]
    return count + 1


class SpareGpus(NamedTuple):
    """Some GPUs that the site paid for and no job held, for as long as they were that many."""

    use: int
    gpus: int
    from_hours: float
    to_hours: float


class StretchLog:
    """The stretches of one run so far."""

    def __init__(self, jobs: int, *, plain: bool) -> None:
        self._opened, self._written, self._count = OpenStretches.none(jobs), WrittenStretches.empty(ROOM), 0
        self._write: Callable[..., int] = write if plain else compiled(write)
        self._spare = list[SpareGpus]()
        self._open: dict[int, SpareGpus] = {}

    def jobs(
        self,
        jobs: PresentJobs,
        present: int,
        ended: EndedPhases,
        ends: int,
        finish_hours: Floats,
        now_hours: float,
    ) -> None:
        """Take in what jobs hold and do by now, and which of them have just ended."""
        while self._count + present + ends > len(self._written.job):
            self._written = self._written.grown()
        self._count = self._write(
            self._opened, self._written, self._count, jobs, present, ended, ends, finish_hours, now_hours
        )

    def site(self, from_hours: float, to_hours: float, unused: Unused) -> None:
        """Take in what no job held between two times."""
        for use, gpus in enumerate(unused, start=1):
            last = self._open.pop(use, None)
            if last is not None and (last.gpus, last.to_hours) == (gpus, from_hours):
                self._open[use] = last._replace(to_hours=to_hours)
                continue
            if last is not None:
                self._spare.append(last)
            if gpus > 0 and to_hours > from_hours:
                self._open[use] = SpareGpus(use, gpus, from_hours, to_hours)

    def kept(self, usd_per_gpu_hour: float) -> KeptStretches:
        """Return all stretches, in the order in which they began."""
        spare = [*self._spare, *self._open.values()]
        jobs = WrittenStretches._make(column[: self._count] for column in self._written)
        held = np.where(jobs.gpus > 0, jobs.to_hours - jobs.from_hours, 0.0)
        pause = np.clip(jobs.pause_hours, 0.0, held)
        use, gpus, from_hours, to_hours = _columns_of(spare)
        none = np.zeros(len(spare))
        columns = StretchColumns(
            job=np.concatenate((jobs.job, np.full(len(spare), SITE))),
            use=np.concatenate((np.zeros(self._count, dtype=np.int64), use)),
            gpus=np.concatenate((jobs.gpus, gpus)),
            from_hours=np.concatenate((jobs.from_hours, from_hours)),
            to_hours=np.concatenate((jobs.to_hours, to_hours)),
            held_hours=np.concatenate((held, to_hours - from_hours)),
            pause_hours=np.concatenate((pause, none)),
            productive_hours=np.concatenate((held - pause, none)),
            gained_gpu_hours=np.concatenate((jobs.gained_gpu_hours, none)),
        )
        order = np.argsort(columns.from_hours, kind="stable")
        return KeptStretches(StretchColumns._make(column[order] for column in columns), usd_per_gpu_hour)


def _columns_of(spare: list[SpareGpus]) -> tuple[Ints, Ints, Floats, Floats]:
    whole = np.array([(one.use, one.gpus) for one in spare], dtype=np.int64).reshape(-1, 2)
    hours = np.array([(one.from_hours, one.to_hours) for one in spare], dtype=np.float64).reshape(-1, 2)
    return whole[:, 0], whole[:, 1], hours[:, 0], hours[:, 1]
