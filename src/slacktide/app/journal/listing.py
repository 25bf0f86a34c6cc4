"""The jobs of a journal as users see them: their states, which of them to list, and what their files say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, get_args

from slacktide.core.errors import InputError, SlacktideError, UnknownNameError, shown
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.core.units import parse_duration_hours
from slacktide.files.job import parse_job, submitted_file
from slacktide.journal.events import Record, Status, Submitted
from slacktide.journal.state.journal_state import NOTHING, Holding, JobRecord, JournalState
from slacktide.physics.pace import UNKNOWN_SPREAD
from slacktide.report.text.sentences.events import policy_name
from slacktide.results.status import JobStatus

OWNER = "owner"  # a key of job files; a file without this word has no owner, and need not be read
KEPT_FILES = 4096  # job files whose owner and class are remembered
UNATTENDED = "unattended"  # the state of a job whose controller died
BLOCKED = "blocked"  # the state of a job that cannot go on for now
ACTIVE = "active"  # all states but those of jobs that have ended
ENDED: tuple[str, ...] = get_args(Status)
STATES = (
    ACTIVE, "pending", "starting", "running", "recovering", "cancelling", "released", "unattended", "blocked",
    *ENDED,
)  # fmt: skip
LEAST_SHARE = 0.02  # while less than this share of the work is done, nothing is projected
SHOWN_SLOTS = 120  # more slots of the past than most terminals have room for
LATE = ("late", "late-expected")
AS_SHOWN = {"out-of-money": "budget_exhausted"}  # states by the word that lists show, if that differs


class RecordedEvent(NamedTuple):
    """An event of the journal, and the submission of its job, from which its hours are counted."""

    record: Record
    submitted: Submitted | None


def listed(record: JobRecord, state: JournalState, *, in_charge: bool) -> JobStatus:
    """Return the state of a job as of the journal's last event; `in_charge`: a controller is running now."""
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

    `released` when its controller was stopped cleanly, `unattended` when its controller died, so that it is
    not known whether its workers still run; `blocked` when something keeps it from holding anything.
    """
    if not record.active:
        return record.status
    if record.requests.released or state.controller is None:
        return "released"
    if not in_charge:
        return UNATTENDED
    return BLOCKED if record.progress.blocked and not held_by(record).gpus else record.status


def projected(amount: float, done_share: float) -> float | None:
    """Project an amount to the end of the work; None while too little is done for that, and once all is."""
    return amount / done_share if LEAST_SHARE <= done_share < 1 else None


def policy_of(record: JobRecord) -> str:
    """Return the policy of a job as users write it."""
    return policy_name(record.submitted.policy)


def health_of(record: JobRecord, now_hours: float, deadline_hours: float) -> str:
    """Return the outlook of a job: as it was last recorded, but late once its deadline has passed."""
    done = record.ended is not None and record.ended.status == "succeeded"
    late = elapsed_hours(record, now_hours) > deadline_hours + TIME_TOLERANCE_HOURS
    return "late" if late and not done else record.progress.health


def elapsed_hours(record: JobRecord, now_hours: float) -> float:
    """Return how long a job has been under way, or was."""
    end = now_hours if record.ended is None else record.ended.at_hours
    return max(0.0, end - record.began_hours)


def owner_of(submitted: Submitted) -> str:
    """Return the owner that a job's file names; empty if it names none."""
    return _written(submitted.text, submitted.path).owner if OWNER in submitted.text else ""


def class_of(submitted: Submitted) -> str:
    """Return the class of a job in a fleet; empty if it has none. In old journals only its file has it."""
    if submitted.fleet_class or not submitted.fleet:
        return submitted.fleet_class
    return _written(submitted.text, submitted.path).job_class


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """How a job's end is judged; every field is None if its file cannot be read any more."""

    deadline_kind: str | None = None  # `hard`, `soft` (late work is worth less), or `none`
    after_deadline: str | None = None
    """What happens to work not done by the deadline: stop, finish-cheaply or finish-fast."""
    work_known: bool | None = None
    """Whether the file says how much work the job has; otherwise it is guessed until it is measured."""


class _Written(NamedTuple):
    """The parts of a job's file that lists need again and again."""

    owner: str = ""
    job_class: str = ""
    terms: JobTerms = JobTerms()


@lru_cache(maxsize=KEPT_FILES)
def _written(text: str, path: str) -> _Written:
    """Read a job's file, once: a list of jobs is requested many times a second."""
    try:
        file = parse_job(text, path=path, now=datetime.now(UTC))
    except SlacktideError:  # accepted by another version: its owner is not known any more
        return _Written()
    job = file.job
    kind = "none" if math.isinf(job.deadline_hours) else "hard" if job.hard else "soft"
    known = job.work_spread < UNKNOWN_SPREAD
    terms = JobTerms(deadline_kind=kind, after_deadline=job.after_deadline, work_known=known)
    return _Written(file.owner, file.fleet_class or "", terms)


def terms_of(text: str, path: str) -> JobTerms:
    """Return the terms of a job from its file, which is read once."""
    return _written(text, path).terms


def task_of(record: JobRecord) -> tuple[float, float]:
    """Return a job's work in GPU-hours and its deadline in hours, even if its market is gone."""
    submitted = record.submitted
    if submitted.work_gpu_hours > 0:
        return submitted.work_gpu_hours, submitted.deadline_hours
    job = submitted_file(submitted).job  # old journals do not have them
    return job.work_gpu_hours, job.deadline_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to show of a list; a field that is left out restricts nothing."""

    states: tuple[str, ...] = ()
    job_class: str | None = None
    owner: str | None = None
    since: datetime | None = None
    late: bool = False
    most: int | None = None  # only this many of those, the newest

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple(AS_SHOWN.get(state, state) for state in self.states))
        for state in self.states:
            if state not in STATES:
                raise UnknownNameError("a state", state, STATES)

    def kept(self, listed: Sequence[JobStatus]) -> list[JobStatus]:
        """Return the jobs that match, in the order they came."""
        jobs = [job for job in listed if self._keeps(job)]
        return jobs if self.most is None else jobs[max(0, len(jobs) - self.most) :]

    def _keeps(self, job: JobStatus) -> bool:
        return (
            (
                not self.states
                or job.status in self.states
                or (ACTIVE in self.states and job.status not in ENDED)
            )
            and self.job_class in (None, job.job_class)
            and self.owner in (None, job.owner)
            and (self.since is None or datetime.fromisoformat(job.submitted_utc) >= self.since)
            and (not self.late or job.health in LATE or job.status == "deadline_missed")
        )


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """Read a moment: a duration before now (`2d`), or an ISO date or time, in UTC unless it has a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return (now or datetime.now(UTC)) - timedelta(hours=parse_duration_hours(text))
    except (InputError, OverflowError):
        must = "--since must be a duration such as 2d, or a date such as 2026-01-31"
        raise InputError(f"{must}, got {shown(text)}") from None
