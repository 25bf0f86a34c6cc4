"""What earlier runs of the same name measured, from the journal: how much work the job really is."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from slacktide.core.errors import InputError, SlacktideError
from slacktide.core.types import Job
from slacktide.engine.bills.bill import measured_pace
from slacktide.files.job import parse_job
from slacktide.journal.events import Ended, PaceRevised, Record
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.paths import real_path
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.physics.pace import is_measured, mean_factor, whole_work
from slacktide.results.last_runs import LastRun, LastRuns, WidthMeasured

MOST_RUNS = 20  # only the last runs are read: older ones say little about the job today


def last_runs(journal: Path, name: str) -> LastRuns | None:
    """Return what runs of this name measured; None where there is no such run, or no journal to be read.

    The journal is only read. It need not exist, and a damaged one does not stop a plan: `slacktide jobs`
    reports what is wrong with it.
    """
    if not real_path(journal).exists():
        return None
    try:
        with SqliteStore(journal, create=False) as store:
            found = _measured(read_state(store), name)
            if not found:
                return None
            last, _ = found[-1]
            records = list(store.read(job=last.job))
    except SlacktideError:
        return None
    works = [
        whole_work(record.progress.pace, job.work_gpu_hours)
        for record, job in found
        if record.progress.pace is not None
    ]
    return LastRuns(len(found), sum(works) / len(works), _last(*found[-1], records))


def _measured(state: JournalState, name: str) -> list[tuple[JobRecord, Job]]:
    """Return the last runs of this name that succeeded and were measured, oldest first, with their jobs."""
    alike = re.compile(rf"{re.escape(name)}(-[0-9]+)?")
    alike_jobs = state.jobs.walk([job for job in state.jobs if alike.fullmatch(job)])
    named = [record for record in alike_jobs if _was_measured(record)]
    read = ((record, _file_of(record)) for record in named[-MOST_RUNS:])
    # A job that is called NAME-2 looks like the second run of NAME; its file says which it is.
    return [(record, job) for record, job in read if job is not None and job.name == name]


def _was_measured(record: JobRecord) -> bool:
    """Whether a run was done by real workers that reported: a dry run takes the file's word for it."""
    done, pace = record.ended is not None and record.ended.status == "succeeded", measured_pace(record)
    return done and record.holding.held_attempt > 0 and pace is not None and is_measured(pace)


def _file_of(record: JobRecord) -> Job | None:
    """Return the job as its file said it; None where the file cannot be read as it could then."""
    submitted = record.submitted
    now = datetime.fromisoformat(submitted.submitted_utc)
    try:
        return parse_job(submitted.text, path=submitted.path, now=now).job
    except InputError:
        return None


def _last(job_record: JobRecord, job: Job, records: Iterable[Record]) -> LastRun:
    hours: dict[int, float] = defaultdict(float)
    ended, pace = datetime.fromtimestamp(0, UTC), job_record.progress.pace
    assert pace is not None
    for record in records:
        if isinstance(record.event, PaceRevised):
            hours[record.event.gpus] += record.event.measured_hours
        elif isinstance(record.event, Ended):
            ended = record.time_utc
    return LastRun(
        job=job_record.job,
        ended_utc=ended,
        work_gpu_hours=whole_work(pace, job.work_gpu_hours),
        work_spread_share=math.expm1(math.sqrt(max(pace.variance, 0.0))),
        file_work_gpu_hours=job.work_gpu_hours,
        widths=tuple(
            WidthMeasured(gpus, seen, mean_factor(pace, gpus)) for gpus, seen in sorted(hours.items())
        ),
    )
