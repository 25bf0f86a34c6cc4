"""A simulated fleet in the terminal: allocators at one spend, money against the month, what jobs got."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.sentences import budget as say
from slacktide.report.text.sentences import fleet as sentences
from slacktide.report.text.sentences.reasons import reason
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.budget import lines
from slacktide.report.text.tables.grid import Column, Grid, left, right
from slacktide.results.fleet import LATE, REFUSED, UNFINISHED, by_class, money_at, outcomes

if TYPE_CHECKING:
    from slacktide.results.fleet import ClassOutcome, FleetComparison, FleetRow, JobOutcome, MoneyAt

QUARTERS = (0.25, 0.5, 0.75, 1.0)
MOST_JOBS = 10  # jobs that are listed in the terminal; the table for programs and the page have all


def page(found: FleetComparison, source: str) -> list[Any]:
    """Return things to print; the table of allocators comes first."""
    all_jobs = outcomes(found.month, found.story)
    return [
        *lines(sentences.head(found, source)),
        "",
        *lines([sentences.common_line(found)]),
        grid.as_rich(policies(found)),
        "",
        *lines([f"The {sentences.first_period(found.month)} under {found.story.policy}:"]),
        grid.as_rich(money(found)),
        "",
        *lines(sentences.change_lines(found)),
        "",
        grid.as_rich(classes(by_class(all_jobs))),
        "",
        *lines(["What jobs got and why, those that went worst first (--csv-jobs writes all):"]),
        grid.as_rich(jobs(found, worst(all_jobs))),
        "",
        *lines(f"- {note}" for note in sentences.notes(found)),
    ]


def policies(found: FleetComparison) -> Grid:
    """Return one line for each allocator at the common spend."""
    bounded = any(row.over_bound is not None for row in found.rows)
    columns = (
        Column("policy", right=False, breaks=True),
        *right("mean response", "p95", "deadlines met", "refused", "spent", "on demand"),
        *((Column("over the lower bound", narrow="over the\nlower\nbound"),) if bounded else ()),
    )  # fmt: skip
    means = [math.inf if math.isnan(mean := row.measured.mean_hours) else mean for row in found.rows]
    rows = tuple(_policy(row, found.deadlines, bounded) for row in found.rows)
    return Grid(columns, rows, strong=means.index(min(means)))


def _policy(row: FleetRow, deadlines: int, bounded: bool) -> tuple[str, ...]:
    one = row.measured
    bound = words.NOTHING if row.over_bound is None else f"{row.over_bound:.2f}x"
    return (
        words.plain(row.policy, 60),
        _hours(one.mean_hours),
        _hours(one.p95_hours),
        f"{round(one.met)} of {deadlines}" if deadlines else words.NOTHING,
        f"{round(one.refused)}",
        format_usd(one.spent_usd),
        words.percent(one.on_demand_share),
        *((bound,) if bounded else ()),
    )


def money(found: FleetComparison) -> Grid:
    """Return where the money stood at each quarter of the period."""
    priced = sentences.prices_seen(found)
    columns = (
        *left("by"), *right("gone", "straight line", "spent", "reserved", "free", "projected"),
        *((Column("an hour of waiting is worth", narrow="an hour of\nwaiting is\nworth"),) if priced else ()),
    )  # fmt: skip
    rows = [money_at(found.month, found.story, share) for share in QUARTERS]
    return Grid(columns, tuple(_money(found, row, priced) for row in rows))


def _money(found: FleetComparison, row: MoneyAt, priced: bool) -> tuple[str, ...]:
    when = found.month.start + timedelta(hours=row.hours)
    price = words.NOTHING if math.isnan(row.usd_per_job_hour) else format_usd(row.usd_per_job_hour)
    amounts = (row.line_usd, row.spent_usd, row.reserved_usd, row.free_usd, row.projected_usd)
    return (
        words.short_time(when),
        words.percent(row.gone_share),
        *map(format_usd, amounts),
        *((price,) if priced else ()),
    )


def classes(found: Sequence[ClassOutcome]) -> Grid:
    """Return one line for each class under the first allocator."""
    columns = (
        Column("class", right=False, breaks=True),
        *right("jobs", "mean response", "p95", "deadlines met", "refused", "cost", "on demand"),
    )  # fmt: skip
    return Grid(columns, tuple(_class(one) for one in found))


def _class(one: ClassOutcome) -> tuple[str, ...]:
    share = one.on_demand_gpu_hours / one.gpu_hours if one.gpu_hours else 0.0
    return (
        words.plain(one.name, 40),
        f"{one.jobs:,}",
        _hours(one.mean_hours),
        _hours(one.p95_hours),
        f"{one.met} of {one.deadlines}" if one.deadlines else words.NOTHING,
        f"{one.refused}",
        format_usd(one.cost_usd),
        words.percent(share),
    )


def worst(found: Sequence[JobOutcome]) -> list[JobOutcome]:
    """Return the jobs that went worst: refused, late and undone ones, then those that took the longest."""
    bad = (REFUSED, LATE, UNFINISHED)
    ranked = sorted(found, key=lambda one: (one.outcome not in bad, -min(one.response_hours, 1e9)))
    return ranked[:MOST_JOBS]


def jobs(found: FleetComparison, some: Sequence[JobOutcome]) -> Grid:
    """Return one line for each of some jobs: what it got, and why."""
    columns = (
        Column("job", right=False, breaks=True), *left("submitted", "outcome"), *right("response", "cost"),
        Column("got", right=False, breaks=True), Column("why", right=False, breaks=True),
    )  # fmt: skip
    return Grid(columns, tuple(_job(found, one) for one in some))


def _job(found: FleetComparison, one: JobOutcome) -> tuple[str, ...]:
    when = found.month.start + timedelta(hours=one.submitted_hours)
    return (
        words.plain(one.name, 40),
        words.short_time(when.replace(second=0, microsecond=0)),
        _outcome(one),
        _hours(one.response_hours),
        format_usd(one.cost_usd),
        got(one),
        words.plain(why(one), 200) or words.NOTHING,
    )


def _outcome(one: JobOutcome) -> str:
    if math.isinf(one.deadline_hours) or math.isinf(one.finish_hours):
        return one.outcome
    apart = words.rounded(abs(one.deadline_hours - one.finish_hours))
    return (
        f"{one.outcome}, {apart} {'before' if one.finish_hours <= one.deadline_hours else 'after'} it was due"
    )


def got(one: JobOutcome) -> str:
    """Say what a job held: `12.3 GPU-hours, 80 % of them spot; 2 starts, 1 loss`."""
    if not one.gpu_hours:
        return "nothing"
    spot = words.percent(one.spot_gpu_hours / one.gpu_hours)
    losses = "" if not one.losses else f", {one.losses} {'loss' if one.losses == 1 else 'losses'} of spot"
    return f"{one.gpu_hours:,.1f} GPU-hours, {spot} spot; {words.count(one.starts, 'start')}{losses}"


def why(one: JobOutcome) -> str:
    """Say why a job has what it has, or why it was refused and what could be promised instead."""
    if one.refusal is None:
        return "" if one.why is None else reason(one.why.rule, one.why.signals)
    refusal = one.refusal
    nearest = [
        f"a deadline of {words.rounded(refusal.deadline_hours)}"
        if refusal.deadline_hours is not None
        else "",
        f"a budget of {format_usd(refusal.budget_usd)}" if refusal.budget_usd is not None else "",
        f"up to {words.count(refusal.gpus, 'GPU')}" if refusal.gpus is not None else "",
    ]
    could = " or ".join(filter(None, nearest))
    return f"{refusal.why}; it could be promised with {could}" if could else refusal.why


def _hours(hours: float) -> str:
    return say.response(hours) if math.isfinite(hours) else words.NOTHING
