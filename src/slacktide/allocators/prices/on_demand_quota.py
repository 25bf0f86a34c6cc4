"""The limit on a fleet's on-demand GPUs: for which rescues they are kept, and which jobs give way.

A rescue begins at the last moment, or less than a slot before it, and needs no more than the fastest width
until the deadline. If these windows of all admitted jobs fit at every moment, every rescue finds its GPUs:
windows only get shorter while a job works or waits, and a job that is not being rescued gives way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices.budget_reserve import FULL, Holdings
from slacktide.allocators.prices.deadline_guarantees import LATE_HOURS, is_hard
from slacktide.allocators.prices.spot_auction import WayCosts
from slacktide.allocators.site.job_tables import JobTables, Kinds, SiteMoment, safe_terms_of
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.physics.progress import work_hours


class Windows(NamedTuple):
    """When each job may have to be rescued, and by how many GPUs: [job]; 0 without a hard deadline."""

    from_hours: Floats
    to_hours: Floats
    gpus: Ints


@compilable
def rescue_windows(moment: SiteMoment) -> Windows:
    """Return the windows of rescues, as if all work since the last checkpoint were lost."""
    jobs, count = moment.jobs, len(moment.jobs.kind)
    begin, end, gpus = np.zeros(count), np.zeros(count), np.zeros(count, dtype=np.int64)
    for job in range(count):
        if is_hard(jobs, job):
            end[job] = jobs.deadline_hours[job] + LATE_HOURS
            needs, gpus[job] = rescue_needs(moment.kinds, jobs, job)
            begin[job] = max(moment.now_hours, end[job] - needs - moment.slot_hours)
    return Windows(begin, end, gpus)


@compilable
def rescue_needs(kinds: Kinds, jobs: JobTables, job: int) -> tuple[float, int]:
    """Return the most hours that a rescue takes, wherever the job is then, and the most GPUs."""
    kind, soonest, gpus = jobs.safe_kind[job], np.inf, 0
    for pool in range(kinds.fastest.shape[1]):
        width = kinds.fastest[kind, pool]
        if width > 0:
            terms = safe_terms_of(kinds, jobs, job, pool)
            hours = terms.restart_hours + work_hours(terms, jobs.checkpointed_gpu_hours[job], width)
            soonest, gpus = min(soonest, hours), max(gpus, width)
    # A checkpoint may still be on its way to the job's pool, and then be copied to that of the rescue.
    return soonest + 2.0 * kinds.move_hours[kind].max(), gpus


@compilable
def most_needed(windows: Windows, from_hours: float, to_hours: float) -> int:
    """Return the most GPUs that rescues may need at any moment of a span of time."""
    most = 0
    for one in range(len(windows.gpus)):
        moment = max(from_hours, windows.from_hours[one])
        if windows.gpus[one] == 0 or moment >= to_hours:
            continue
        needed = 0
        for other in range(len(windows.gpus)):
            if windows.from_hours[other] <= moment < windows.to_hours[other]:
                needed += windows.gpus[other]
        most = max(most, needed)
    return most


@compilable
def first_gap(windows: Windows, from_hours: float, hours: float, gpus: int, quota_gpus: int) -> float:
    """Return the first moment from which this many more GPUs are free for some hours; infinite if never."""
    found = np.inf
    for one in range(-1, len(windows.gpus)):
        moment = from_hours if one < 0 else max(from_hours, windows.to_hours[one])
        if moment < found and most_needed(windows, moment, moment + hours) + gpus <= quota_gpus:
            found = moment
    return found


@compilable
def keep_to_quota(jobs: JobTables, quota_gpus: int, ways: WayCosts, held: Holdings) -> None:
    """Let jobs wait for which no on-demand GPUs are left, after serving all in turn, rescues first.

    Then come jobs whose pace must be measured, other jobs with a hard deadline, and the rest.
    """
    left = quota_gpus
    for turn in range(4):
        for job in range(len(jobs.kind)):
            if held.on_demand_gpus[job] == 0 or _turn(jobs, ways, job) != turn:
                continue
            if held.on_demand_gpus[job] <= left:
                left -= held.on_demand_gpus[job]
            else:
                held.pool[job], held.on_demand_gpus[job] = jobs.pool[job], 0
                held.why[job] = FULL


@compilable
def _turn(jobs: JobTables, ways: WayCosts, job: int) -> int:
    if ways.forced[job]:
        return 1 if jobs.measure_gpus[job].max() > 0 else 0
    return 2 if is_hard(jobs, job) else 3
