"""What cannot be met is refused before anything is rented, with what could be."""

from __future__ import annotations

from slacktide.errors import InfeasibleError
from slacktide.types import MAX_GPUS, Job


def check_feasible(job: Job) -> None:
    """Raise InfeasibleError when not even on-demand GPUs from the start are in time."""
    soonest = job.restart_hours + job.work_hours(job.fastest_width)
    limit = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    if soonest <= limit + 1e-9:
        return
    what = "deadline" if job.hard else "time after which the result is worthless"
    raise InfeasibleError(
        f"the {what} of {limit:g} h cannot be met: on {job.fastest_width} on-demand GPUs from the start "
        f"the job takes {soonest:.4g} h; {', or '.join(_remedies(job, soonest, limit))}"
    )


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
