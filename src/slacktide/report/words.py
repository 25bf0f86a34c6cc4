"""How numbers, times, jobs and outcomes are written; every page, picture and table uses these functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slacktide.core.types import Job
from slacktide.core.units import PERIOD_HOURS, format_count, format_duration, format_usd
from slacktide.physics.truth import AS_SAID, FACTORS, RandomTruth, Truths
from slacktide.results.run import IN_THE_POOL

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import Run, RunResult, Stay

ON_DEMAND = "on-demand"
NOTHING = "–"

count = format_count


def listed(names: Sequence[str], most: int) -> str:
    """List the first of many names, and say how many are left out: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def plain(text: str, limit: int = 0) -> str:
    """Return text on one line without control characters, cut to a length if one is given.

    Names come from users' files: a line break would tear a table, an escape sequence a terminal.
    """
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return f"{line[: limit - 1]}…" if limit and len(line) > limit else line


def duration(hours: float) -> str:
    """Write hours as `11h20m`, rounded to minutes from one hour up, and exactly below that."""
    return format_duration(round(hours * 60) / 60 if 1 <= abs(hours) < math.inf else hours)


def about(hours: float) -> str:
    """Write hours that are known only roughly, rounded to a unit from 1 s to 1 d, at most a tenth of them."""
    grains = (1, 5, 10, 60, 300, 600, 3600, 6 * 3600, 24 * 3600)
    grain = max(seconds for seconds in grains if seconds == 1 or seconds <= abs(hours) * 360)
    return format_duration(round(hours * 3600 / grain) * grain / 3600)


def since(hours: float) -> str:
    """Write time on a job's clock, rounded to minutes from an hour, seconds from a minute, else to 0.1 s."""
    seconds = abs(hours) * 3600
    if not math.isfinite(seconds):
        return format_duration(hours)
    grain = 60.0 if seconds >= 3600 else 1.0 if seconds >= 60 else 0.1
    return format_duration(math.copysign(round(seconds / grain) * grain / 3600, hours))


def rounded(hours: float) -> str:
    """Write a time briefly: whole hours from two days, whole minutes from ten minutes up, else as `since`."""
    if 48 <= abs(hours) < math.inf:
        return since(round(hours))
    return since(round(hours * 60) / 60 if 1 / 6 <= abs(hours) < math.inf else hours)


def gpus(count: float) -> str:
    """Write an average number of GPUs."""
    return f"{count:,.{2 if count < 100 else 1 if count < 10_000 else 0}f}"


def per_month(usd: float) -> str:
    """Write what is spent in a month."""
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:,.2f}"


def rate(per_hour: float) -> str:
    """Write how often something comes, over the shortest period in which it comes at least once."""
    for period in ("hour", "day", "week"):
        if per_hour * PERIOD_HOURS[period] >= 1:
            break
    count = per_hour * PERIOD_HOURS[period]
    return f"{count:,.0f}/{period}" if count >= 1000 else f"{count:.3g}/{period}"


def share(part: float) -> str:
    """Write a share in whole percent; a positive share below half a percent is `< 1 %`."""
    return "< 1 %" if 0 < part < 0.005 else percent(part)


def sooner(hours: float) -> str:
    """Write how much sooner a job is done, or later."""
    if abs(hours) < 0.5 / 3600:
        return "the same"
    seconds = round(abs(hours) * 3600) / 3600
    return f"{duration(seconds)} {'sooner' if hours > 0 else 'later'}"


def response(hours: float) -> str:
    """Write a response time to the minute, below an hour to the second."""
    return duration(round(hours * 3600) / 3600 if hours * 3600 >= 1 else hours)


STATES = {"budget_exhausted": "out-of-money", "deadline_missed": "late"}
"""States whose names in the journal are not one plain word."""
GOING = ("pending", "starting", "running", "recovering")
"""States of a job that has not ended; its health, such as `late`, then says more than its state."""


def state(status: str, health: str) -> str:
    """Return one word for where a job stands: its health while it is not on time, otherwise its state.

    `measuring` is shown only for a job that runs.
    """
    if status in GOING and health != "on-time" and (health != "measuring" or status == "running"):
        return health
    return STATES.get(status, status)


def gpu_hours(amount: float) -> str:
    """Write GPU-hours with one decimal, without the unit."""
    return f"{amount:,.1f}"


def work(amount: float) -> str:
    """Write GPU-hours with their unit, as exactly as their size needs."""
    digits = 1 if abs(amount) >= 0.95 else 2 if abs(amount) >= 0.095 else 3
    return f"{amount:,.{digits}f} GPU-hours"


def ahead(amount: float) -> str:
    """Write GPU-hours ahead of the line (+) or behind it (−)."""
    sign = "+" if amount >= 0.05 else "−" if amount <= -0.05 else ""
    return f"{sign}{gpu_hours(abs(amount))}"


def holding(spot_gpus: int, on_demand_gpus: int) -> str:
    """Write what is held: `3 spot + 2 on demand`, `3 spot`, or `nothing`."""
    parts = [f"{spot_gpus} spot"] if spot_gpus else []
    parts += [f"{on_demand_gpus} on demand"] if on_demand_gpus else []
    return " + ".join(parts) or "nothing"


def change(spot_gpus: int, on_demand_gpus: int) -> str:
    """Write how the GPUs held changed: `-2 spot, +2 on demand`; empty where they did not."""
    counts = ((spot_gpus, "spot"), (on_demand_gpus, "on demand"))
    return ", ".join(f"{gpus:+d} {kind}" for gpus, kind in counts if gpus)


def ratio(times: float) -> str:
    """Write a multiple: `1.07×`, or `∞×` over nothing."""
    return f"{times:,.2f}×" if math.isfinite(times) else "∞×"


def percent(share: float) -> str:
    """Write a share as whole percent."""
    return f"{share:.0%}".replace("%", " %")


def usd_span(low: float, high: float) -> str:
    """Write the bounds of a price: `$2.40 to $2.46`; one number when both read the same."""
    ends = format_usd(low), format_usd(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def usd_range(low: float, high: float) -> str:
    """Write a range of money; one number when both ends read the same."""
    ends = format_usd(low), format_usd(high)
    if high >= 100:
        ends = f"${low:,.0f}", f"${high:,.0f}"  # a range says more in whole dollars
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"


def short_time(time: datetime) -> str:
    """Write a time in UTC as `4 Oct 06:00`."""
    utc = time.astimezone(UTC)
    return f"{utc.day} {utc:%b %H:%M}" + (f"{utc:%S}".join((":", "")) if utc.second else "")


def long_time(time: datetime) -> str:
    """Write a time in UTC as `Sat 4 Oct 2025, 06:00 UTC`."""
    utc = time.astimezone(UTC)
    return f"{utc:%a} {utc.day} {utc:%b %Y, %H:%M} UTC"


def widths(job: Job) -> str:
    """Write the widths a job may have: `8`, `1..8` or `{1,2,4,8}`."""
    low, high = job.widths[0], job.widths[-1]
    if low == high:
        return str(low)
    if len(job.widths) == high - low + 1:
        return f"{low}..{high}"
    if len(job.widths) > 8:
        return f"{low}..{high} ({len(job.widths)} widths)"
    return "{" + ",".join(map(str, job.widths)) + "}"


def open_ended(job: Job) -> bool:
    """Whether a job has no deadline, such as a job of a stream."""
    return math.isinf(job.deadline_hours)


def task(job: Job) -> str:
    """Describe a job: its work, its deadline if it has one, and its widths."""
    within = "" if open_ended(job) else f" within {duration(job.deadline_hours)}"
    noun = "GPU" if job.max_gpus == 1 else "GPUs"
    return f"{job.work_gpu_hours:,g} GPU-hours of work{within} on {widths(job)} {noun}"


def late(job: Job) -> str:
    """Say what happens to work that is left at the deadline."""
    if job.after_deadline == "stop":
        saves = "" if math.isinf(job.checkpoint_hours) else "checkpoints and "
        return f"A job that is not done at its deadline {saves}stops."
    if job.after_deadline == "finish-cheaply":
        narrowest = count(job.widths[0], "on-demand GPU")
        return f"Work left at the deadline runs on spot while there is some, otherwise on {narrowest}."
    return f"Work left at the deadline runs on {count(job.fastest_width, 'on-demand GPU')}."


def finish(job: Job, hours: float) -> str:
    """Say when a run was done, and by how much it was late if it was."""
    if not math.isfinite(hours):
        return "never done"
    late = "" if job.on_time(hours) else f", {duration(hours - job.deadline_hours)} late"
    return f"done at {duration(hours)}{late}"


def outcome(run: RunResult) -> str:
    """Say when a run was done and how late; of one that was not done, how far it got and what stopped it."""
    if math.isfinite(run.finish_hours):
        return finish(run.job, run.finish_hours)
    done = run.laps[-1].after_gpu_hours / run.job.work_gpu_hours
    return f"{percent(min(done, 0.99))}, {'running' if run.status is None else run.status.replace('_', ' ')}"


def truth(job: Job, truth: Truths) -> str:
    """Say how a job differed from its file, and whether its pace was measured; empty for no difference."""
    if truth == AS_SAID:
        return ""
    fast = f"as fast on {count(job.max_gpus, 'GPU')}"
    factors = "the work", fast, "as fast in the second half of its work"
    said = [
        f"{_times(getattr(truth, name))} {what}"
        for name, what in zip(FACTORS, factors, strict=True)
        if getattr(truth, name) not in (1.0, (1.0, 1.0))
    ]
    drawn = f", and drawn for each start (seed {truth.seed})" if isinstance(truth, RandomTruth) else ""
    believed = "The file's figures were used, because it states no spread." if job.work_spread == 0 else ""
    seen = believed or "Its pace was measured."
    return f"The job was not what its file says{drawn}: {', '.join(said) or 'no difference'}. {seen}"


def _times(factor: float | tuple[float, float]) -> str:
    low, high = factor if isinstance(factor, tuple) else (factor, factor)
    return f"{low:g} times" if low == high else f"{low:g} to {high:g} times"


def in_pool(policy: str, pool: str) -> str:
    """Name a policy, with the pool that it stays in unless that is empty."""
    if not pool:
        return policy
    return f"{policy}, {pool}" if policy == IN_THE_POOL else f"{policy} in {pool}"


def stays(found: Sequence[Stay]) -> str:
    """List the pools that a job was in, and since when: `us-east5-a from 0s, us-central1-a from 4h20m`."""
    return ", ".join(f"{plain(stay.pool, 40)} from {since(stay.from_hours)}" for stay in found)


def starts_of(comparison: Comparison) -> int:
    """Return the number of starts from which every policy ran, in all pools together."""
    if comparison.roams:
        return len(runs_of(comparison, comparison.summary[0].policy))
    return len({(run.pool, run.start_slot) for run in comparison.runs})


def runs_of(comparison: Comparison, policy: str) -> list[Run]:
    """Return all runs of one policy."""
    return [run for run in comparison.runs if run.policy == policy]


def in_time(comparison: Comparison, policy: str) -> str:
    """Write from how many starts a policy was on time: `24 of 24`."""
    runs = runs_of(comparison, policy)
    return f"{sum(run.on_time for run in runs)} of {len(runs)}"


def against_on_demand(comparison: Comparison, one: PolicySummary) -> float | None:
    """Return mean cost over on demand's, minus 1; None for on demand itself, or if that cost nothing."""
    usual = next((other for other in comparison.summary if other.policy == ON_DEMAND), None)
    if usual is None or usual is one or usual.mean_cost_usd <= 0:
        return None
    return one.mean_cost_usd / usual.mean_cost_usd - 1


def signed_percent(share: float | None) -> str:
    """Write a difference as `−63 %` or `+4 %`."""
    if share is None:
        return NOTHING
    return percent(abs(share)) if round(share, 2) == 0 else ("−" if share < 0 else "+") + percent(abs(share))


def spare(spare_usd: float, cost_usd: float) -> str:
    """Say by how much the clairvoyant's plan of a wide job may miss the best one."""
    share = f" ({100 * spare_usd / cost_usd:.2g} % of its cost)" if cost_usd > 0 else ""
    return (
        "not all plans of a job this wide were tried, and the best could be up to "
        f"{format_usd(spare_usd)}{share} better"
    )
