"""What cannot be met is refused before anything is rented, with what could be."""

from __future__ import annotations

from collections.abc import Sequence

from slacktide.core.errors import InfeasibleError
from slacktide.core.types import MAX_GPUS, Job
from slacktide.market.pools.places import UsablePool, job_at


def check_feasible(job: Job) -> None:
    """Raise InfeasibleError when not even on-demand GPUs from the start are in time.

    A job that says which pools it may use is taken to be in the fastest of them.
    """
    check_in_time(_at_its_fastest(job))


def check_in_time_anywhere(jobs: Sequence[Job]) -> None:
    """Raise InfeasibleError when a job is in time in no pool; `jobs` is the job as it is in each."""
    check_in_time(min(jobs, key=_soonest_hours))


def _soonest_hours(job: Job) -> float:
    return job.restart_hours + job.work_hours(job.fastest_width)


def check_in_time(job: Job) -> None:
    """Raise InfeasibleError when not even on-demand GPUs from the start are in time."""
    soonest = _soonest_hours(job)
    limit = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    if soonest <= limit + 1e-9:
        return
    what = "deadline" if job.hard else "time after which the result is worthless"
    raise InfeasibleError(
        f"the {what} of {limit:g} h cannot be met: on {job.fastest_width} on-demand GPUs from the start "
        f"the job takes {soonest:.4g} h; {', or '.join(_remedies(job, soonest, limit))}"
    )


def _at_its_fastest(job: Job) -> Job:
    """Return a job as it is on the GPU type on which its work is done soonest."""
    places = [UsablePool("", one.widths or job.widths, one.speed) for one in job.pools]
    jobs = [job_at(job, place) for place in places] or [job]
    return min(jobs, key=lambda one: one.work_hours(one.fastest_width))


def _remedies(job: Job, soonest: float, limit: float) -> list[str]:
    remedies = [f"the earliest deadline that can be met is {soonest:.4g} h"]
    wider = next((n for n in range(job.max_gpus + 1, MAX_GPUS + 1) if _fits(job, n, limit)), None)
    if wider is not None:
        remedies.append(f"{wider} GPUs would be enough")
    most = (limit - job.restart_hours) * job.work_gpu_hours / job.work_hours(job.fastest_width)
    if most > 0:
        remedies.append(f"{most:.4g} gpu-hours of work would fit")
    return remedies


def _fits(job: Job, gpus: int, limit: float) -> bool:
    return job.restart_hours + job.work_hours(gpus) <= limit
