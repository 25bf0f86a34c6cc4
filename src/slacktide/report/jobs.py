"""The jobs of a journal as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slacktide.report import grid, words
from slacktide.report.grid import Column, Grid
from slacktide.report.wire import values
from slacktide.results.status import JobStatus
from slacktide.units import format_usd

OVER = ("failed", "cancelled", "budget_exhausted")
"""States of jobs that are over without a result: whether that was in time nobody asks."""
ESTIMATED = "(est.): estimated from time and width, because the job reports no progress"
COLUMNS = (
    Column("job", right=False), Column("status", right=False), Column("health", right=False), Column("done"),
    Column("time"), Column("GPUs held", right=False), Column("spent"), Column("preempted"),
    Column("policy", right=False),
)  # fmt: skip


def text(listed: Sequence[JobStatus]) -> str:
    """Return the jobs as aligned plain text, a line each."""
    if not listed:
        return "no jobs yet"
    table = grid.as_text(Grid(COLUMNS, tuple(_row(one) for one in listed)))
    return f"{table}\n{ESTIMATED}" if any(one.progress_estimated for one in listed) else table


def as_json(one: JobStatus) -> dict[str, Any]:
    """Return a job under its documented keys."""
    fields: dict[str, Any] = values.plain(one)
    return fields


def _row(one: JobStatus) -> tuple[str, ...]:
    within = "" if one.deadline_hours is None else f" of {words.duration(one.deadline_hours)}"
    return (
        words.plain(one.name, 40),
        one.status.replace("_", " "),
        "–" if one.status in OVER else one.health,
        words.percent(one.progress_gpu_hours / one.work_gpu_hours) + (" (est.)" * one.progress_estimated),
        f"{words.since(one.hours)}{within}",
        words.holding(one.spot_gpus, one.on_demand_gpus),
        format_usd(one.cost_usd),
        str(one.preemptions),
        words.plain(one.policy, 60),
    )
