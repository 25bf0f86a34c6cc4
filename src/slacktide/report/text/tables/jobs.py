"""The jobs of a journal as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Grid, TableOf
from slacktide.report.wire.values import document
from slacktide.results.status import JobStatus

NONE = "no jobs yet"
ESTIMATED = "(est.): estimated from time and width, because the job reports no progress"


def text(listed: Sequence[JobStatus]) -> str:
    """Return the jobs as aligned plain text, a line each."""
    return "\n".join(filter(None, (grid.as_text(table_of(listed)), note(listed)))) if listed else NONE


def table_of(listed: Sequence[JobStatus]) -> Grid:
    """Return the jobs as a table, a row each."""
    table = TableOf(listed)
    table.words("job", lambda job: words.plain(job.name, 40))
    table.words("state", lambda job: words.state(job.status, job.health))
    table.number("done", _done)
    table.number("time", _time)
    table.words("GPUs held", _held)
    table.number("spent", lambda job: format_usd(job.cost_usd))
    table.number("preempted", lambda job: str(job.preemptions))
    table.words("policy", lambda job: words.plain(job.policy, 60), breaks=True)
    return table.grid()


def note(listed: Sequence[JobStatus]) -> str:
    """Return the note below the table; empty where no job's progress is estimated."""
    return ESTIMATED if any(one.progress_estimated for one in listed) else ""


def as_json(one: JobStatus) -> dict[str, Any]:
    """Return a job under its documented keys."""
    fields = document(one)
    if one.pool is None:
        del fields["pool"], fields["moves"]
    return fields


def _done(job: JobStatus) -> str:
    estimated = " (est.)" if job.progress_estimated else ""
    return words.percent(job.progress_gpu_hours / job.work_gpu_hours) + estimated


def _time(job: JobStatus) -> str:
    within = "" if job.deadline_hours is None else f" of {words.rounded(job.deadline_hours)}"
    return f"{words.rounded(job.hours)}{within}"


def _held(job: JobStatus) -> str:
    """Say what a job holds, and where if it may move."""
    where = f" in {words.plain(job.pool, 40)}" if job.pool and job.spot_gpus + job.on_demand_gpus else ""
    return words.holding(job.spot_gpus, job.on_demand_gpus) + where
