"""A simulated fleet as text: its jobs and market, allocators at one spend, its money, and what jobs got."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.core.units import PERIOD_HOURS, format_usd
from slacktide.report import words
from slacktide.report.text.sentences.reasons import reason
from slacktide.report.text.tables.grid import Grid, TableOf, printable
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
LOAD_OFF = 0.05  # jobs whose load is off from the classes' by more than this share are mentioned
SPEND_OFF = 0.005  # so is an allocator that cannot spend the common amount by more than this share
_PERIODS = {hours: name for name, hours in PERIOD_HOURS.items() if len(name) > 1}


def page(found: FleetComparison, source: str) -> list[Any]:
    """Return things to print; the table of allocators comes first."""
    all_jobs = outcomes(found.month, found.story)
    jobs_heading = "What jobs got and why, those that went worst first (--csv-jobs writes all):"
    return printable(
        head(found, source),
        [common_line(found), policies(found)],
        [f"The {first_period(found.month)} under {found.story.policy}:", money(found)],
        change_lines(found),
        [classes(by_class(all_jobs))],
        [jobs_heading, jobs(found, worst(all_jobs))],
        (f"- {note}" for note in notes(found)),
    )


def policies(found: FleetComparison) -> Grid:
    """Return one line for each allocator at the common spend."""
    table, deadlines = TableOf(found.rows), found.deadlines
    table.words("policy", lambda row: words.plain(row.policy, 60), breaks=True)
    table.number("mean response", lambda row: _hours(row.measured.mean_hours))
    table.number("p95", lambda row: _hours(row.measured.p95_hours))
    table.number("deadlines met", lambda row: _met(round(row.measured.met), deadlines))
    table.number("refused", lambda row: f"{round(row.measured.refused)}")
    table.number("spent", lambda row: format_usd(row.measured.spent_usd))
    table.number("on demand", lambda row: words.percent(row.measured.on_demand_share))
    if any(row.over_bound is not None for row in found.rows):
        table.number("over the lower bound", _over_bound, narrow="over the\nlower\nbound")
    means = [math.inf if math.isnan(mean := row.measured.mean_hours) else mean for row in found.rows]
    return table.grid(strong=means.index(min(means)))


def _over_bound(row: FleetRow) -> str:
    return words.NOTHING if row.over_bound is None else f"{row.over_bound:.2f}x"


def _met(met: int, deadlines: int) -> str:
    return f"{met} of {deadlines}" if deadlines else words.NOTHING


def money(found: FleetComparison) -> Grid:
    """Return where the money stood at each quarter of the period."""
    table = TableOf(money_at(found.month, found.story, share) for share in QUARTERS)
    table.words("by", lambda row: words.short_time(found.month.start + timedelta(hours=row.hours)))
    table.number("gone", lambda row: words.percent(row.gone_share))
    table.number("straight line", lambda row: format_usd(row.line_usd))
    table.number("spent", lambda row: format_usd(row.spent_usd))
    table.number("reserved", lambda row: format_usd(row.reserved_usd))
    table.number("free", lambda row: format_usd(row.free_usd))
    table.number("projected", lambda row: format_usd(row.projected_usd))
    if prices_seen(found):
        table.number("an hour of waiting is worth", _worth, narrow="an hour of\nwaiting is\nworth")
    return table.grid()


def _worth(row: MoneyAt) -> str:
    return words.NOTHING if math.isnan(row.usd_per_job_hour) else format_usd(row.usd_per_job_hour)


def classes(found: Sequence[ClassOutcome]) -> Grid:
    """Return one line for each class under the first allocator."""
    table = TableOf(found)
    table.words("class", lambda row: words.plain(row.name, 40), breaks=True)
    table.number("jobs", lambda row: f"{row.jobs:,}")
    table.number("mean response", lambda row: _hours(row.mean_hours))
    table.number("p95", lambda row: _hours(row.p95_hours))
    table.number("deadlines met", lambda row: _met(row.met, row.deadlines))
    table.number("refused", lambda row: f"{row.refused}")
    table.number("cost", lambda row: format_usd(row.cost_usd))
    table.number("on demand", lambda row: words.percent(row.on_demand_share))
    return table.grid()


def worst(found: Sequence[JobOutcome]) -> list[JobOutcome]:
    """Return the jobs that went worst: refused, late and unfinished ones, then those that took longest."""
    bad = (REFUSED, LATE, UNFINISHED)
    ranked = sorted(found, key=lambda one: (one.outcome not in bad, -min(one.response_hours, 1e9)))
    return ranked[:MOST_JOBS]


def jobs(found: FleetComparison, some: Sequence[JobOutcome]) -> Grid:
    """Return one line for each of some jobs: what it got, and why."""
    begin = found.month.start
    table = TableOf(some)
    table.words("job", lambda job: words.plain(job.name, 40), breaks=True)
    table.words("submitted", lambda job: words.short_time(_to_the_minute(begin, job.submitted_hours)))
    table.words("outcome", _outcome)
    table.number("response", lambda job: _hours(job.response_hours))
    table.number("cost", lambda job: format_usd(job.cost_usd))
    table.words("got", got, breaks=True)
    table.words("why", lambda job: words.plain(why(job), 200) or words.NOTHING, breaks=True)
    return table.grid()


def _to_the_minute(start: datetime, hours: float) -> datetime:
    return (start + timedelta(hours=hours)).replace(second=0, microsecond=0)


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
    """Name the period of a budget: `month`, or `36h`."""
    return _PERIODS.get(allowance.period_hours) or words.duration(allowance.period_hours)


def first_period(month: FleetMonth) -> str:
    """Name the period that money is reported for: `month`, or `first month` where there are more."""
    name = period_name(month.allowance)
    return f"first {name}" if month.hours > (1.0 + LOAD_OFF) * month.period_hours else name


def simulated_time(month: FleetMonth) -> str:
    """Say how long was simulated: `One month`, or `4d`."""
    whole = abs(month.hours / month.period_hours - 1.0) <= LOAD_OFF
    return f"One {period_name(month.allowance)}" if whole else words.rounded(month.hours)


def budget_words(allowance: Allowance) -> str:
    """Write a budget and how it renews."""
    money, name = format_usd(allowance.usd), period_name(allowance)
    if allowance.renewal == "calendar":
        return f"{money} per calendar month (UTC)"
    if allowance.renewal == "rolling":
        return f"{money} in any {words.duration(allowance.period_hours)} ({name}, rolling)"
    return f"{money} per {name}, counted from the beginning"


def head(found: FleetComparison, source: str) -> list[str]:
    """Describe the jobs, the budget and the market that were simulated."""
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
    """Say how far the jobs' load is off from what the file's classes promise; empty where it is close."""
    ratio = month.load_ratio
    if ratio is None or abs(ratio - 1.0) <= LOAD_OFF:
        return []
    return [
        f"these jobs bring {ratio:.2f}x the load the file promises: {words.gpus(month.brought_gpus)} "
        f"GPU-hours of work an hour against {words.gpus(month.promised_gpus)}"
    ]


def common_line(found: FleetComparison) -> str:
    """Say at which spend allocators are compared, and where that amount comes from."""
    whose = f"what {found.common_of} spends" if found.common_of else "the budget of that time"
    return f"At one common spend of {format_usd(found.common_usd)}, {whose}:"


def change_lines(found: FleetComparison) -> list[str]:
    """Say what a larger budget would save, and what a smaller one would cost."""
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
    """Write one of these lines: `$1,000.00 more a month would save 112 hours of waiting`."""
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
    """Explain the figures, and point out what is unusual about them."""
    return [
        "mean response and p95 are of jobs without a deadline; deadlines met are hard and soft ones; spent "
        "is all that the jobs cost until the last one was done",
        *_about_allocators(found),
        *_about_time(found.month),
    ]


def _about_allocators(found: FleetComparison) -> Iterator[str]:
    for row in found.rows:
        if row.settings:
            between = "interpolated between " if len(row.settings) > 1 else ""
            settings = between + " and ".join(row.settings)
            yield f"{row.policy}: the best of {row.tried} settings in hindsight, {settings}"
    for row in found.rows:
        if abs(row.measured.spent_usd / found.common_usd - 1.0) > SPEND_OFF:
            spent = format_usd(row.measured.spent_usd)
            yield f"{row.policy} gets only as close as {spent}, so its line is not at the common spend"
    for row in found.rows:
        if late := round(row.measured.late):
            yield f"{row.policy} missed {words.count(late, 'hard deadline')} of jobs that it accepted"
        if left := round(row.measured.unfinished):
            undone = words.count(left, "job")
            yield f"{row.policy} left {undone} without a deadline undone: they are not in its mean"
    for row in found.rows:
        if row.run.most_spent_share > 1.0 + SPEND_OFF:
            share = words.percent(row.run.most_spent_share)
            yield f"{row.policy} does not keep the budget: it spent up to {share} of what a period allows"


def _about_time(month: FleetMonth) -> Iterator[str]:
    market_start = words.long_time(month.market_start)
    if month.again:
        yield (
            "the market ends before the jobs do, so after its end it starts again from its first slot; this "
            f"run began at its {market_start}"
        )
    if month.start != month.market_start:
        yield f"hour 0 of the jobs, {words.long_time(month.start)}, is set on the market's {market_start}"
    if month.left_out:
        later = words.count(month.left_out, "job")
        yield f"left out: {later} that came after {words.rounded(month.hours)}; --hours takes more"
    share = month.hours / month.period_hours
    if share < 1.0 - LOAD_OFF:
        yield (
            f"the jobs cover {words.percent(share)} of a period of the budget: an allocator that spreads its "
            "money over all of it spends less than it could"
        )


def prices_seen(found: FleetComparison) -> bool:
    """Whether the first allocator said what an hour of waiting is worth."""
    return bool(np.isfinite(found.story.moments.usd_per_job_hour).any())
