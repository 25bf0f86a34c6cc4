"""Every stretch of a simulated stream, written down: what each job held and did, and what stayed unused.

A stretch of a job lasts for as long as its width and its phase do. It is written when it ends, from what the
job's pause and progress were when it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from slacktide.allocators.base import allocators
from slacktide.allocators.view import begin
from slacktide.budget.cluster import UNUSED, Unused
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.arrays import Floats
from slacktide.core.quotes import Quote
from slacktide.core.register import Spec
from slacktide.physics.ledger import Priced, Stretch, Use
from slacktide.physics.tariff import BY_THE_SECOND, Meter, price
from slacktide.results.stream import POOL, PREFIX, StreamRun
from slacktide.simulation.fleet.run import UNWATCHED, drive
from slacktide.simulation.fleet.stream_kernel import EndedPhases, PresentJobs, StepResult
from slacktide.simulation.fleet.stream_world import StreamWorld


class KeptRun(NamedTuple):
    """A run of a stream with all its stretches, in the order in which they began."""

    run: StreamRun
    stretches: Sequence[Priced]


def run_and_keep(
    stream: Stream, fleet: Fleet, spec: Spec, *, plain: bool = False, usd_per_gpu_hour: float = 1.0
) -> KeptRun:
    """Run a stream event by event, and write down every stretch at a price per GPU-hour."""
    allocator = begin(allocators.make(spec), fleet)
    world = StreamWorld(stream, fleet, allocator, plain=plain, last_call=True)
    log = StretchLog(usd_per_gpu_hour)
    step, place = world._kernel_step, world._place

    def noting_step(*given: Any) -> StepResult:
        before, result = world.now_hours, step(*given)
        log.note_site(before, result.now_hours, world.cluster.unused(world.held_gpus))
        log.note_jobs(
            world.jobs, result.present, world.ended, result.ended, world.finish_hours, result.now_hours
        )
        return result

    def noting_place(*given: Any) -> tuple[int, int]:
        result = place(*given)
        log.note_jobs(world.jobs, world.present, world.ended, 0, world.finish_hours, world.now_hours)
        return result

    world._kernel_step, world._place = noting_step, noting_place
    drive(world, len(stream), allocator, UNWATCHED)
    return KeptRun(world.result(""), log.kept())


@dataclass(slots=True)
class OpenStretch:
    """How the stretch that a job is in began."""

    since_hours: float
    gpus: int
    phase: int
    pause_hours: float
    progress_gpu_hours: float
    pause_left_hours: float
    """What is left of the pause by now: a change of width has replaced it when the stretch is written."""


@dataclass(slots=True)
class SpareGpus:
    """Some GPUs that the site paid for and no job held, for as long as they were that many."""

    gpus: int
    from_hours: float
    to_hours: float


class StretchLog:
    """The stretches of one run so far, at a price per GPU-hour."""

    def __init__(self, usd_per_gpu_hour: float) -> None:
        self._quote = Quote(usd_per_gpu_hour, usd_per_gpu_hour, 0)
        self._jobs = dict[int, OpenStretch]()
        self._site = dict[Use, SpareGpus]()
        self._of_jobs, self._of_site = list[Priced](), list[Priced]()

    def note_jobs(
        self, jobs: PresentJobs, present: int, ended: EndedPhases, ends: int, finish: Floats, now_hours: float
    ) -> None:
        """End the stretches of jobs that are done, hold or do something else by now; begin the next ones.

        Called after each step and after each placing; `ends` of the rows of `ended` are of this step.
        """
        for row in range(ends):
            job = int(ended.ids[row])
            if finish[job] == now_hours:
                self._end_of_job(job, now_hours, 0.0, float(ended.progress_gpu_hours[row]))
        columns = (
            jobs.ids, jobs.width, jobs.phase, jobs.pause_hours, jobs.progress_gpu_hours, jobs.submitted_hours
        )  # fmt: skip
        for row_of_job in zip(*(column[:present].tolist() for column in columns), strict=True):
            job, width, phase, pause, progress, submitted = row_of_job
            opened = self._jobs.get(job)
            if opened is not None and (opened.gpus, opened.phase) == (width, phase):
                opened.pause_left_hours = pause
                continue
            if opened is not None:
                # A change of width has overwritten the pause, so what was left of the old one was kept aside.
                left = pause if opened.gpus == width else opened.pause_left_hours
                self._end_of_job(job, now_hours, left, progress)
            since = submitted if opened is None else now_hours
            self._jobs[job] = OpenStretch(since, width, phase, pause, progress, pause)

    def _end_of_job(self, job: int, now: float, pause_left: float, progress: float) -> None:
        one = self._jobs.pop(job)
        if now <= one.since_hours:
            return
        held = now - one.since_hours if one.gpus > 0 else 0.0
        pause = min(max(one.pause_hours - pause_left, 0.0), held)
        gained = progress - one.progress_gpu_hours
        self._of_jobs.append(
            self._priced(f"{PREFIX}{job}", "work", one.gpus, one.since_hours, now, held, pause, gained)
        )

    def note_site(self, from_hours: float, to_hours: float, unused: Unused) -> None:
        """Take in what no job held between two times."""
        for use, gpus in zip(UNUSED, unused, strict=True):
            last = self._site.get(use)
            if last is not None and (last.gpus, last.to_hours) == (gpus, from_hours):
                last.to_hours = to_hours
                continue
            self._end_of_site(use)
            if gpus > 0 and to_hours > from_hours:
                self._site[use] = SpareGpus(gpus, from_hours, to_hours)

    def _end_of_site(self, use: Use) -> None:
        one = self._site.pop(use, None)
        if one is not None:
            held = one.to_hours - one.from_hours
            self._of_site.append(self._priced("", use, one.gpus, one.from_hours, one.to_hours, held))

    def _priced(
        self, payer: str, use: Use, gpus: int, from_hours: float, to_hours: float, held_hours: float,
        pause_hours: float = 0.0, gained_gpu_hours: float = 0.0,
    ) -> Priced:  # fmt: skip
        stretch = Stretch(
            payer=payer, use=use, slot=0, from_hours=from_hours, to_hours=to_hours, held_hours=held_hours,
            pool=POOL, spot_gpus=0, on_demand_gpus=gpus, quote=self._quote, pause_hours=pause_hours,
            productive_hours=held_hours - pause_hours if payer else 0.0, gained_gpu_hours=gained_gpu_hours,
        )  # fmt: skip
        charge, _ = price(BY_THE_SECOND, Meter(), 0, 0, self._quote, 0, gpus, held_hours, 0.0)
        return Priced(stretch, charge)

    def kept(self) -> tuple[Priced, ...]:
        """Return all stretches, in the order in which they began."""
        for use in tuple(self._site):
            self._end_of_site(use)
        return tuple(sorted((*self._of_jobs, *self._of_site), key=lambda one: one.stretch.from_hours))
