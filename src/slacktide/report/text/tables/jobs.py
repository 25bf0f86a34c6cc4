"""The jobs of a journal as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid, left, right
from slacktide.report.wire.values import document
from slacktide.results.status import JobStatus

NONE = "no jobs yet"
ESTIMATED = "(est.): estimated from time and width, because the job reports no progress"
COLUMNS = (
    *left("job", "state"), *right("done", "time"), *left("GPUs held"), *right("spent", "preempted"),
    Column("policy", right=False, breaks=True),
)  # fmt: skip


def text(listed: Sequence[JobStatus]) -> str:
    """Return the jobs as aligned plain text, a line each."""
    return "\n".join(filter(None, (grid.as_text(table_of(listed)), note(listed)))) if listed else NONE


def table_of(listed: Sequence[JobStatus]) -> Grid:
    """Return the jobs as a table, a row each."""
    return Grid(COLUMNS, tuple(_row(one) for one in listed))


def note(listed: Sequence[JobStatus]) -> str:
    """Return what must be said below the table, if anything must."""
    return ESTIMATED if any(one.progress_estimated for one in listed) else ""


def as_json(one: JobStatus) -> dict[str, Any]:
    """Return a job under its documented keys."""
    fields = document(one)
    if one.pool is None:
        del fields["pool"], fields["moves"]
    return fields


def _row(one: JobStatus) -> tuple[str, ...]:
    within = "" if one.deadline_hours is None else f" of {words.rounded(one.deadline_hours)}"
    return (
        words.plain(one.name, 40),
        words.state(one.status, one.health),
        words.percent(one.progress_gpu_hours / one.work_gpu_hours) + (" (est.)" * one.progress_estimated),
        f"{words.rounded(one.hours)}{within}",
        words.holding(one.spot_gpus, one.on_demand_gpus) + _where(one),
        format_usd(one.cost_usd),
        str(one.preemptions),
        words.plain(one.policy, 60),
    )


def _where(one: JobStatus) -> str:
    """Say where a job that may move holds what it holds."""
    return f" in {words.plain(one.pool, 40)}" if one.pool and one.spot_gpus + one.on_demand_gpus else ""
