"""A simulated fleet as text: what was run, allocators at one spend, its money, and what jobs got."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.core.units import PERIOD_HOURS, format_usd
from slacktide.report import words
from slacktide.report.text.sentences.reasons import reason
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.budget import lines
from slacktide.report.text.tables.grid import Column, Grid, left, right
from slacktide.results.fleet import LATE, REFUSED, UNFINISHED, by_class, money_at, outcomes

if TYPE_CHECKING:
    from slacktide.budget.allowance import Allowance
    from slacktide.results.fleet import (
        Budgeted,
        ClassOutcome,
        FleetComparison,
        FleetMonth,
        FleetRow,
        JobOutcome,
        MoneyAt,
    )

QUARTERS = (0.25, 0.5, 0.75, 1.0)
MOST_JOBS = 10  # jobs that are listed in the terminal; the table for programs and the page have all
LOAD_OFF = 0.05  # jobs whose load is off from the classes' by more than this share are worth a line
SPEND_OFF = 0.005  # so is an allocator that cannot spend the common amount by more than this share
_PERIODS = {hours: name for name, hours in PERIOD_HOURS.items() if len(name) > 1}


def page(found: FleetComparison, source: str) -> list[Any]:
    """Return things to print; the table of allocators comes first."""
    all_jobs = outcomes(found.month, found.story)
    return [
        *lines(head(found, source)),
        "",
        *lines([common_line(found)]),
        grid.as_rich(policies(found)),
        "",
        *lines([f"The {first_period(found.month)} under {found.story.policy}:"]),
        grid.as_rich(money(found)),
        "",
        *lines(change_lines(found)),
        "",
        grid.as_rich(classes(by_class(all_jobs))),
        "",
        *lines(["What jobs got and why, those that went worst first (--csv-jobs writes all):"]),
        grid.as_rich(jobs(found, worst(all_jobs))),
        "",
        *lines(f"- {note}" for note in notes(found)),
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
    priced = prices_seen(found)
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
    return words.response(hours) if math.isfinite(hours) else words.NOTHING


def period_name(allowance: Allowance) -> str:
    """Say which period a budget is of: `month`, or `36h`."""
    return _PERIODS.get(allowance.period_hours) or words.duration(allowance.period_hours)


def first_period(month: FleetMonth) -> str:
    """Say which period the money is reported for: `month`, or `first month` where there are more."""
    name = period_name(month.allowance)
    return f"first {name}" if month.hours > (1.0 + LOAD_OFF) * month.period_hours else name


def simulated_time(month: FleetMonth) -> str:
    """Say how long was simulated: `One month`, or `4d`."""
    whole = abs(month.hours / month.period_hours - 1.0) <= LOAD_OFF
    return f"One {period_name(month.allowance)}" if whole else words.rounded(month.hours)


def budget_words(allowance: Allowance) -> str:
    """Say a budget, and when there is money again."""
    money, name = format_usd(allowance.usd), period_name(allowance)
    if allowance.renewal == "calendar":
        return f"{money} per calendar month (UTC)"
    if allowance.renewal == "rolling":
        return f"{money} in any {words.duration(allowance.period_hours)} ({name}, rolling)"
    return f"{money} per {name}, counted from the beginning"


def head(found: FleetComparison, source: str) -> list[str]:
    """Say what was run on what."""
    month = found.month
    best_effort = len(month.jobs) - found.deadlines
    lines = [
        f"{words.plain(source, 60)}: {words.count(len(month.jobs), 'job')} over "
        f"{words.rounded(month.hours)}, {words.plain(month.jobs_from, 80)}; {found.deadlines} with a "
        f"deadline, {best_effort} best effort",
        f"budget {budget_words(month.allowance)}; market {words.plain(month.market, 60)} from "
        f"{words.long_time(month.market_start)}, slots of {words.duration(month.slot_hours)}",
    ]
    return [*lines, *load_line(month)]


def load_line(month: FleetMonth) -> list[str]:
    """Say so where jobs bring another load than the classes of the file promise."""
    ratio = month.load_ratio
    if ratio is None or abs(ratio - 1.0) <= LOAD_OFF:
        return []
    return [
        f"these jobs bring {ratio:.2f}x the load the file promises: {words.gpus(month.brought_gpus)} "
        f"GPU-hours of work an hour against {words.gpus(month.promised_gpus)}"
    ]


def common_line(found: FleetComparison) -> str:
    """Say at which spend allocators are compared, and whose that is."""
    whose = f"what {found.common_of} spends" if found.common_of else "the budget of that time"
    return f"At one common spend of {format_usd(found.common_usd)}, {whose}:"


def change_lines(found: FleetComparison) -> list[str]:
    """Say what more money would buy, and less would cost."""
    if found.less is None or found.more is None:
        return []
    first, name = found.rows[0], period_name(found.month.allowance)
    jobs = len(found.month.jobs) - found.deadlines
    lines = [
        _change(first, other, found.month.allowance.usd, name, jobs) for other in (found.more, found.less)
    ]
    how = "by interpolating between its settings" if first.settings else "by running the same jobs"
    budgets = f"{format_usd(found.less.budget_usd)} and {format_usd(found.more.budget_usd)} a {name}"
    return [*lines, f"(measured {how} under {first.policy} at {budgets})"]


def _change(first: FleetRow, other: Budgeted, usd: float, name: str, jobs: int) -> str:
    """Say one of them: `$1,000.00 more a month would save 112 hours of waiting`."""
    more = other.budget_usd > usd
    sooner = first.measured.mean_hours - other.measured.mean_hours
    amount = f"{format_usd(abs(other.budget_usd - usd))} {'more' if more else 'less'} a {name} would"
    mean = (
        f"mean response {words.response(other.measured.mean_hours)} instead of "
        f"{words.response(first.measured.mean_hours)}"
    )
    if math.isnan(sooner):
        return f"{amount} change nothing for jobs without a deadline: there are none"
    refused = round(other.measured.refused - first.measured.refused)
    also = (
        f"; {words.count(abs(refused), 'job')} {'more' if refused > 0 else 'fewer'} refused"
        if refused
        else ""
    )
    if abs(sooner) < 1e-9:
        return f"{amount} change nothing: {mean}{also}"
    verb = "save" if sooner > 0 else "cost"
    return f"{amount} {verb} {abs(sooner) * jobs:,.1f} hours of waiting over all jobs: {mean}{also}"


def notes(found: FleetComparison) -> list[str]:
    """Say what the figures rest on, and where they are odd."""
    month = found.month
    return [
        "mean response and p95 are of jobs without a deadline; deadlines met are hard and soft ones; spent "
        "is all that the jobs cost until the last one was done",
        *_tuning(found),
        *_unequal(found),
        *_missed(found),
        *_overspent(found),
        *([_again(month)] if month.again else []),
        *_dates(month),
        *_cut(month),
    ]


def _tuning(found: FleetComparison) -> list[str]:
    return [
        f"{row.policy}: the best of {row.tried} settings in hindsight, "
        + (f"interpolated between {' and '.join(row.settings)}" if len(row.settings) > 1 else row.settings[0])
        for row in found.rows
        if row.settings
    ]


def _unequal(found: FleetComparison) -> list[str]:
    return [
        f"{row.policy} gets only as close as {format_usd(row.measured.spent_usd)}, so its line is not at the "
        "common spend"
        for row in found.rows
        if abs(row.measured.spent_usd / found.common_usd - 1.0) > SPEND_OFF
    ]


def _missed(found: FleetComparison) -> list[str]:
    lines = []
    for row in found.rows:
        if row.measured.late >= 0.5:
            late = words.count(round(row.measured.late), "hard deadline")
            lines.append(f"{row.policy} missed {late} of jobs that it accepted")
        if row.measured.unfinished >= 0.5:
            left = words.count(round(row.measured.unfinished), "job")
            lines.append(f"{row.policy} left {left} without a deadline undone: they are not in its mean")
    return lines


def _overspent(found: FleetComparison) -> list[str]:
    return [
        f"{row.policy} does not keep the budget: it spent up to {words.percent(row.run.most_spent_share)} of "
        "what a period allows"
        for row in found.rows
        if row.run.most_spent_share > 1.0 + SPEND_OFF
    ]


def _again(month: FleetMonth) -> str:
    return (
        "the market ends before the jobs do, so after its end it starts again from its first slot; this run "
        f"began at its {words.long_time(month.market_start)}"
    )


def _dates(month: FleetMonth) -> list[str]:
    if month.start == month.market_start:
        return []
    return [
        f"hour 0 of the jobs, {words.long_time(month.start)}, is set on the market's "
        f"{words.long_time(month.market_start)}"
    ]


def _cut(month: FleetMonth) -> list[str]:
    lines = []
    if month.left_out:
        later = words.count(month.left_out, "job")
        lines.append(f"left out: {later} that came after {words.rounded(month.hours)}; --hours takes more")
    share = month.hours / month.period_hours
    if share < 1.0 - LOAD_OFF:
        lines.append(
            f"the jobs cover {words.percent(share)} of a period of the budget: an allocator that spreads its "
            "money over all of it spends less than it could"
        )
    return lines


def prices_seen(found: FleetComparison) -> bool:
    """Whether the first allocator said what an hour of waiting is worth."""
    return bool(np.isfinite(found.story.moments.usd_per_job_hour).any())
