"""Kernel of the stream simulation: arrivals, progress and ends of jobs; runs plain or compiled.

Between two events every job progresses at a constant rate, so the time of the next event is computed and all
jobs are taken there at once. With t the time of the last event, a job j on width k in a stage with x work
left and a pause of p hours

    next event  t' = min( until, next arrival, t + min over j of (p + x / rate(k)) )
    then        p -= min(p, t' - t);  x -= rate(k) * (hours of t' - t after the pause)

Jobs stay packed at the front of the arrays, in the order of their arrival, so that an allocator's columns are
views of them and cost nothing. `physics` has the rules for pauses, ends and changes of width;
`budget.cluster.granted` decides who gets what while nodes are on their way.
"""

from __future__ import annotations

from typing import NamedTuple

from slacktide.budget.cluster import granted
from slacktide.budget.fleet import Stages
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.physics.progress import ends_in_hours, pause_on_change, worked


class ArrivalColumns(NamedTuple):
    """The stream as the kernel reads it."""

    hours: Floats
    kind: Ints
    number: Ints
    size: Floats


class PresentJobs(NamedTuple):
    """The jobs that are present, in the order of their arrival; arrays with room for more."""

    ids: Ints
    kind: Ints
    number: Ints
    phase: Ints
    stage: Ints  # the row of the phase in the fleet's tables
    submitted_hours: Floats
    size: Floats
    width: Ints  # GPUs held
    started: Ints  # 1 once a job has held GPUs: from then on a change of width is a resize
    pause_hours: Floats  # hours without progress still to come
    left_gpu_hours: Floats  # work left in the stage
    progress_gpu_hours: Floats  # work done in all stages
    span_hours: Floats  # productive hours since the last report of this job
    span_gpu_hours: Floats  # work done since the last report of this job


class EndedPhases(NamedTuple):
    """The stretches that ended in the last step, because a stage was done."""

    ids: Ints
    kind: Ints
    stage: Ints
    width: Ints
    span_hours: Floats
    span_gpu_hours: Floats
    progress_gpu_hours: Floats


class StepResult(NamedTuple):
    """The state of the run after a step."""

    now_hours: float
    present: int  # how many jobs are present
    came: int  # how many jobs have arrived so far
    ended: int  # how many stretches ended


@compilable
def step(
    jobs: PresentJobs,
    arrivals: ArrivalColumns,
    stages: Stages,
    finish_hours: Floats,
    ended: EndedPhases,
    busy: Floats,
    present: int,
    came: int,
    now_hours: float,
    until_hours: float,
) -> StepResult:
    """Go to the next event (the end of a stage, an arrival, or `until_hours`) and let it happen.

    Adds GPU-hours with and without progress to `busy`, writes when jobs finish into `finish_hours`.
    """
    if came < len(arrivals.hours) and arrivals.hours[came] < until_hours:
        until_hours = max(arrivals.hours[came], now_hours)
    span = until_hours - now_hours
    # The span is kept besides the time: a difference of times loses bits, so the job would not quite end.
    for job in range(present):
        if jobs.width[job] > 0:
            rate = stages.rate[jobs.stage[job], jobs.width[job]]
            ends = ends_in_hours(jobs.left_gpu_hours[job], rate, jobs.pause_hours[job])
            if ends < span:
                span = ends
                until_hours = now_hours + ends
    ends_count = pass_time(jobs, stages, busy, present, span)
    kept = settle(jobs, stages, finish_hours, ended, present, until_hours) if ends_count > 0 else present
    # Where the arrays are full the rest arrives in the next step, of 0 hours, when there is more room.
    while came < len(arrivals.hours) and arrivals.hours[came] <= until_hours and kept < len(jobs.ids):
        admit(jobs, arrivals, stages, kept, came)
        kept += 1
        came += 1
    return StepResult(until_hours, kept, came, ends_count)


@compilable
def pass_time(jobs: PresentJobs, stages: Stages, busy: Floats, present: int, span: float) -> int:
    """Let some hours pass for every job; return how many stages that brings to their end."""
    count = 0
    for job in range(present):
        width = jobs.width[job]
        if width == 0:
            continue
        rate = stages.rate[jobs.stage[job], width]
        # The span ends no later than the first end of a stage, so no tolerance is needed.
        waited, _, gained, ended = worked(jobs.left_gpu_hours[job], rate, jobs.pause_hours[job], span, 0.0)
        count += ended
        jobs.pause_hours[job] -= waited
        jobs.left_gpu_hours[job] -= gained
        jobs.progress_gpu_hours[job] += gained
        jobs.span_hours[job] += span - waited
        jobs.span_gpu_hours[job] += gained
        busy[0] += width * (span - waited)
        busy[1] += width * waited
    return count


@compilable
def settle(
    jobs: PresentJobs,
    stages: Stages,
    finish_hours: Floats,
    ended: EndedPhases,
    present: int,
    now_hours: float,
) -> int:
    """Move jobs whose stage is done into the next one, or out; return how many stay."""
    kept = 0
    count = 0
    for job in range(present):
        if jobs.left_gpu_hours[job] <= 0.0:
            stage = jobs.stage[job]
            ended.ids[count] = jobs.ids[job]
            ended.kind[count] = jobs.kind[job]
            ended.stage[count] = stage
            ended.width[count] = jobs.width[job]
            ended.span_hours[count] = jobs.span_hours[job]
            ended.span_gpu_hours[count] = jobs.span_gpu_hours[job]
            ended.progress_gpu_hours[count] = jobs.progress_gpu_hours[job]
            count += 1
            if stage + 1 == stages.first[jobs.kind[job] + 1]:
                finish_hours[jobs.ids[job]] = now_hours
                continue
            jobs.phase[job] += 1
            jobs.stage[job] = stage + 1
            jobs.left_gpu_hours[job] = stages.work_gpu_hours[stage + 1] * jobs.size[job]
            jobs.span_hours[job] = 0.0
            jobs.span_gpu_hours[job] = 0.0
        # Jobs behind one that left move up, so they stay in the order of arrival.
        if kept < job:
            move(jobs, job, kept)
        kept += 1
    return kept


@compilable
def move(jobs: PresentJobs, source: int, target: int) -> None:
    """Copy a job to the place of one that is gone."""
    jobs.ids[target] = jobs.ids[source]
    jobs.kind[target] = jobs.kind[source]
    jobs.number[target] = jobs.number[source]
    jobs.phase[target] = jobs.phase[source]
    jobs.stage[target] = jobs.stage[source]
    jobs.submitted_hours[target] = jobs.submitted_hours[source]
    jobs.size[target] = jobs.size[source]
    jobs.width[target] = jobs.width[source]
    jobs.started[target] = jobs.started[source]
    jobs.pause_hours[target] = jobs.pause_hours[source]
    jobs.left_gpu_hours[target] = jobs.left_gpu_hours[source]
    jobs.progress_gpu_hours[target] = jobs.progress_gpu_hours[source]
    jobs.span_hours[target] = jobs.span_hours[source]
    jobs.span_gpu_hours[target] = jobs.span_gpu_hours[source]


@compilable
def admit(jobs: PresentJobs, arrivals: ArrivalColumns, stages: Stages, place: int, number: int) -> None:
    """Add a job of the stream at a place; it waits until it is given a width."""
    stage = stages.first[arrivals.kind[number]]
    jobs.ids[place] = number
    jobs.kind[place] = arrivals.kind[number]
    jobs.number[place] = arrivals.number[number]
    jobs.phase[place] = 0
    jobs.stage[place] = stage
    jobs.submitted_hours[place] = arrivals.hours[number]
    jobs.size[place] = arrivals.size[number]
    jobs.width[place] = 0
    jobs.started[place] = 0
    jobs.pause_hours[place] = 0.0
    jobs.left_gpu_hours[place] = stages.work_gpu_hours[stage] * arrivals.size[number]
    jobs.progress_gpu_hours[place] = 0.0
    jobs.span_hours[place] = 0.0
    jobs.span_gpu_hours[place] = 0.0


@compilable
def place(jobs: PresentJobs, stages: Stages, wanted: Ints, gpus: int) -> tuple[int, int]:
    """Give jobs the widths they are to have, as far as there are GPUs.

    Returns the GPUs held and how many running jobs changed their width, or -1 and a job's place if its width
    is not allowed.
    """
    # Widths index the table of rates below, and compiled code does not check bounds.
    for job in range(len(wanted)):
        width = wanted[job]
        if width < 0 or width >= stages.rate.shape[1]:
            return -1, job
        if width > 0 and stages.rate[jobs.stage[job], width] == 0.0:
            return -1, job
    given = granted(jobs.width[: len(wanted)], wanted, gpus)
    held = 0
    changes = 0
    for job in range(len(given)):
        held += given[job]
        if given[job] == jobs.width[job]:
            continue
        restart = stages.restart_hours[jobs.stage[job]]
        jobs.pause_hours[job] = pause_on_change(
            restart, restart, jobs.pause_hours[job], 0, jobs.width[job], 0, given[job]
        )
        jobs.width[job] = given[job]
        # The first start is not a change of width: `started` is 0 until then.
        changes += jobs.started[job]
        jobs.started[job] = 1
    return held, changes
