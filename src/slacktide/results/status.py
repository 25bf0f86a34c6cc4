"""Where a job stands, as a list of jobs shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job of a journal, as of its last event."""

    name: str
    policy: str
    status: str
    health: str
    hours: float  # how long it has been under way, or was
    spot_gpus: int
    on_demand_gpus: int
    progress_gpu_hours: float
    cost_usd: float
    preemptions: int
    submitted_utc: str
    work_gpu_hours: float
    deadline_hours: float | None  # none for a job without a deadline
    progress_estimated: bool = False
    """Whether progress is estimated from time and width, because the job reports none."""
    blocked: str | None = None  # what keeps it from going on; None when nothing does
    pool: str | None = None  # where a job that may move is, or is to be; None for one that stays in its pool
    moves: int = 0  # how often it moved
    owner: str = ""  # the owner that its file names; empty: none
    job_class: str = ""  # its class in a fleet; empty: none
