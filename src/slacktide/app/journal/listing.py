"""Where the jobs of a journal stand, in the words that users see."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from slacktide.core.errors import SlacktideError
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.files.job import parse_job
from slacktide.journal.events import Submitted
from slacktide.journal.state.journal_state import NOTHING, Holding, JobRecord, JournalState
from slacktide.report.text.sentences.events import policy_name
from slacktide.results.status import JobStatus

OWNER = "owner"
"""The key of a job file; where the word is not in it, the file need not be read."""
KEPT_FILES = 4096
"""Job files of which is remembered whose they are."""
UNATTENDED = "unattended"
"""The state of a job whose controller is gone without a word."""
BLOCKED = "blocked"
"""The state of a job that something keeps from going on."""


def listed(record: JobRecord, state: JournalState, *, in_charge: bool) -> JobStatus:
    """Say where a job stands, as of the journal's last event; `in_charge`: a controller is there just now."""
    held = held_by(record)
    work_gpu_hours, deadline_hours = task_of(record)
    return JobStatus(
        name=record.job,
        policy=policy_of(record),
        status=status_of(record, state, in_charge=in_charge),
        health=health_of(record, state.now_hours, deadline_hours),
        hours=elapsed_hours(record, state.now_hours),
        spot_gpus=held.spot_gpus,
        on_demand_gpus=held.on_demand_gpus,
        progress_gpu_hours=record.progress.state.progress_gpu_hours,
        cost_usd=record.money.bill.cost_usd,
        preemptions=record.holding.preemptions,
        submitted_utc=record.submitted.submitted_utc.replace("+00:00", "Z"),
        work_gpu_hours=work_gpu_hours,
        deadline_hours=deadline_hours if math.isfinite(deadline_hours) else None,
        progress_estimated=record.progress.estimated and record.active,
        blocked=record.progress.blocked or None,
        pool=record.paid_pool if record.submitted.pools and record.holding.order is not None else None,
        moves=record.holding.moves,
        owner=owner_of(record.submitted),
        job_class=class_of(record.submitted),
    )


def held_by(record: JobRecord) -> Holding:
    """Return what a job really holds; in a dry run, what was ordered for it."""
    if record.holding.order is None:
        return NOTHING
    return record.holding.held or Holding(record.holding.order.spot_gpus, record.holding.order.on_demand_gpus)


def status_of(record: JobRecord, state: JournalState, *, in_charge: bool) -> str:
    """Return a job's state in the words users see.

    `released` when it was let go in order, `unattended` when its controller is gone without a word: nobody
    knows then whether its workers still run; `blocked` when something keeps it from holding anything.
    """
    if not record.active:
        return record.status
    if record.requests.released or state.controller is None:
        return "released"
    if not in_charge:
        return UNATTENDED
    return BLOCKED if record.progress.blocked and not held_by(record).gpus else record.status


def policy_of(record: JobRecord) -> str:
    """Return the policy of a job as users write it."""
    return policy_name(record.submitted.policy)


def health_of(record: JobRecord, now_hours: float, deadline_hours: float) -> str:
    """Return the outlook of a job: as it was last told, but late once its deadline has passed."""
    done = record.ended is not None and record.ended.status == "succeeded"
    late = elapsed_hours(record, now_hours) > deadline_hours + TIME_TOLERANCE_HOURS
    return "late" if late and not done else record.progress.health


def elapsed_hours(record: JobRecord, now_hours: float) -> float:
    """Return how long a job has been under way, or was."""
    end = now_hours if record.ended is None else record.ended.at_hours
    return max(0.0, end - record.began_hours)


def owner_of(submitted: Submitted) -> str:
    """Return whom a job's file names as its owner; empty: nobody."""
    return _written(submitted.text, submitted.path).owner if OWNER in submitted.text else ""


def class_of(submitted: Submitted) -> str:
    """Return the class of a job in a fleet; empty: none. In journals of before only its file says so."""
    if submitted.fleet_class or not submitted.fleet:
        return submitted.fleet_class
    return _written(submitted.text, submitted.path).job_class


class _Written(NamedTuple):
    """What is asked again and again of a job's file."""

    owner: str = ""
    job_class: str = ""


@lru_cache(maxsize=KEPT_FILES)
def _written(text: str, path: str) -> _Written:
    """Read a job's file, once: a list of jobs is asked for many times a second."""
    try:
        file = parse_job(text, path=path, now=datetime.now(UTC))
    except SlacktideError:  # another version took it in: whose it is cannot be said any more
        return _Written()
    return _Written(file.owner, file.fleet_class or "")


def task_of(record: JobRecord) -> tuple[float, float]:
    """Return the GPU-hours of work of a job and its deadline; its market need not be there any more."""
    told = record.submitted
    if told.work_gpu_hours > 0:
        return told.work_gpu_hours, told.deadline_hours
    # A journal of before does not say it, so the job file is read.
    now = datetime.fromisoformat(told.submitted_utc)
    job = parse_job(told.text, path=told.path, now=now).job
    return job.work_gpu_hours, job.deadline_hours
