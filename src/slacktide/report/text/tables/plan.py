"""A plan as a page of text and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_duration
from slacktide.physics.pace import UNKNOWN_SPREAD
from slacktide.report import words
from slacktide.report.text.sentences.reasons import because, offer
from slacktide.report.wire import values

if TYPE_CHECKING:
    from slacktide.results.last_runs import LastRuns
    from slacktide.results.plan import CurvePoint, HeldAt, JobPlan, Outlook, Range, Spread

BAR_WIDTH = 24
TIME_ROWS = 8
COLUMNS = (
    "policy",
    "cost p10",
    "p50",
    "p90",
    "done p50",
    "p90",
    "on time",
    "spot",
    "on dem.",
    "past p50",
    "on time",
)


def page(plan: JobPlan) -> str:
    """Return the plan as text: what will happen, why, the policies side by side, and the assumptions."""
    parts = (
        verdict,
        wrong_words,
        last_words,
        now,
        _table,
        _curves,
        _gpus,
        _pools,
        advice_words,
        _assumptions,
    )
    return "\n\n".join(filter(None, (part(plan) for part in parts)))


def as_json(plan: JobPlan) -> dict[str, Any]:
    """Return the plan under its documented keys."""
    first = plan.first
    document: dict[str, Any] = {
        "job": plan.job.name,
        "deadline_hours": plan.job.deadline_hours,
        "market": plan.market,
        "pool": plan.pool,
        "policy": plan.policy,
        "first_decision": {
            "spot_gpus": first.spot_gpus,
            "on_demand_gpus": first.on_demand_gpus,
            "reason": str(first.reason),
        },
        "outlooks": plan.outlooks,
        "gpus_over_time": plan.gpus,
        "pools": [{"name": name, "history_p50_cost_usd": usd} for name, usd in plan.pools],
        "assumptions": list(plan.assumptions),
        "begin": {
            "slot": plan.begin_slot,
            "utc": None if plan.begin_utc is None else plan.begin_utc.isoformat(),
        },
        "cost_by_deadline": _points(plan.by_deadline, "deadline_hours"),
        "cost_by_width": _points(plan.by_width, "max_gpus"),
    }
    if plan.clairvoyant_spare_usd is not None:
        document["clairvoyant_spare_usd"] = plan.clairvoyant_spare_usd
    if plan.wrong_work is not None:
        document["wrong_work"] = plan.wrong_work
    if plan.last_runs is not None:
        document["last_runs"] = _last_runs(plan.last_runs)
    if plan.checkpoints is not None:
        document["checkpoints"] = {**dataclasses.asdict(plan.checkpoints), "advice": advice_words(plan)}
    plain: dict[str, Any] = values.plain(document)
    return plain


def _last_runs(found: LastRuns) -> dict[str, Any]:
    last = {**dataclasses.asdict(found.last), "ended_utc": values.utc(found.last.ended_utc)}
    return {"runs": found.runs, "mean_work_gpu_hours": found.mean_work_gpu_hours, "last": last}


def _points(points: Sequence[CurvePoint], name: str) -> list[dict[str, float]]:
    return [
        {
            name: point.at,
            "mean_cost_usd": point.mean_cost_usd,
            "p10_cost_usd": point.p10_cost_usd,
            "p90_cost_usd": point.p90_cost_usd,
            "more_usd": point.more_usd,
            "more_error_usd": point.more_error_usd,
        }
        for point in points
    ]


def verdict(plan: JobPlan) -> str:
    """Say what the job will probably cost, when it will be done, and how sure that is."""
    chosen = plan.outlooks[0]
    cost, finish = chosen.futures.cost_usd, chosen.futures.finish_hours
    return (
        f"{plan.job.name} with {plan.policy} in {plan.pool}: probably {_usd(cost.p50)} "
        f"({_usd(cost.p10)} to {_usd(cost.p90)}), done after {_hours(finish.p50)} ({_hours(finish.p10)} to "
        f"{_hours(finish.p90)}) of {format_duration(plan.job.deadline_hours)}.\n"
        f"On time in {_of(chosen.futures)} simulated futures and from {_of(chosen.history)} recent starts. "
        f"{_means(chosen)} {_beside(plan)}"
    )


def wrong_words(plan: JobPlan) -> str:
    """Say what the figures become if the file is wrong about the work; nothing where it is certain."""
    one = plan.wrong_work
    if one is None:
        return ""
    hopeless = (
        f"; in {one.hopeless_share:.0%} the work is so much that on demand from the start would be late, too"
        if one.hopeless_share > 0
        else ""
    )
    return (
        f"These figures take `work` as the file says it. If it is off by {one.spread:.0%} (one standard "
        f"deviation), the cost is {_usd(one.cost_usd.p10)} to {_usd(one.cost_usd.p90)}, and "
        f"{one.on_time_share:.0%} of the futures are on time{hopeless}."
    )


def last_words(plan: JobPlan) -> str:
    """Say how much work the last runs of the same name were; nothing where none was measured."""
    found = plan.last_runs
    if found is None:
        return ""
    took, said = found.last.work_gpu_hours, plan.job.work_gpu_hours
    unknown = plan.job.work_spread >= UNKNOWN_SPREAD - 1e-9
    file = "the file says that it is unknown" if unknown else f"the file says {words.gpu_hours(said)}"
    mean = f" The mean of {found.runs} runs is {words.gpu_hours(found.mean_work_gpu_hours)}."
    return (
        f"The last run of {words.plain(plan.job.name, 60)} took {words.gpu_hours(took)} GPU-hours; {file}."
        f"{mean if found.runs > 1 else ''}"
    )


def _means(chosen: Outlook) -> str:
    """Give both means with their standard errors."""
    spreads = chosen.futures, chosen.history
    said = (f"{one.mean_cost_usd:.2f} USD (+-{one.mean_cost_error_usd:.2f})" for one in spreads)
    return "The mean is {} over simulated futures, {} from recent starts, +- standard error.".format(*said)


def _beside(plan: JobPlan) -> str:
    """Compare the chosen policy's mean with on demand and the clairvoyant."""
    named = {outlook.policy: outlook.futures.mean_cost_usd for outlook in plan.outlooks}
    mine, said = named[plan.policy], []
    if named.get("on-demand"):
        said.append(f"{1 - mine / named['on-demand']:.0%} less than on demand")
    if named.get("clairvoyant"):
        said.append(f"{mine / named['clairvoyant']:.2f}x the cost with perfect foresight")
    return f"On average {', '.join(said)}." if said else ""


def now(plan: JobPlan) -> str:
    """Say what would be held in the first slot, and why."""
    first, offered = plan.first, offer(plan.first.reason.signals)
    kinds = (first.spot_gpus, "spot GPU"), (first.on_demand_gpus, "on-demand GPU")
    held = " and ".join(words.count(gpus, kind) for gpus, kind in kinds if gpus) or "nothing yet"
    said = f"Started {when(plan)} it would hold {held}, because {because(first.reason.rule)}."
    return f"{said} The market then offers {offered}." if offered else said


def when(plan: JobPlan) -> str:
    """Say in which slot of its market the job would begin."""
    if plan.begin_utc is None:
        return "now"
    return f"at {plan.begin_utc:%Y-%m-%d %H:%M} UTC, in slot {plan.begin_slot} of its market,"


def _table(plan: JobPlan) -> str:
    head = "Over simulated futures (USD; GPU-hours); on the right, from recent starts:"
    foot = f"clairvoyant: perfect foresight; {_best(plan)}."
    return "\n".join((head, *_aligned(rows(plan)), foot))


def rows(plan: JobPlan) -> list[list[str]]:
    """Return the table of all policies, its heading first."""
    told = [_row(outlook, chosen=outlook.policy == plan.policy) for outlook in plan.outlooks]
    return [list(COLUMNS), *told]


def _curves(plan: JobPlan) -> str:
    """Say what other deadlines and widths would change."""
    said = [*deadline_words(plan), *width_words(plan)]
    head = "What would change the cost, on average (with its standard error):"
    return "\n".join((head, *said)) if said else ""


def deadline_words(plan: JobPlan) -> list[str]:
    """Say what each other deadline would save or cost."""
    now = plan.job.deadline_hours
    return [
        f"  {_hours(abs(point.at - now))} {'more' if point.at > now else 'less'} would {_change(point)}"
        for point in plan.by_deadline
        if abs(point.at - now) > 1e-9
    ]


def width_words(plan: JobPlan) -> list[str]:
    """Say what each other widest width would save or cost."""
    return [
        f"  at most {point.at:g} GPUs instead of {plan.job.max_gpus} would {_change(point)}"
        for point in plan.by_width
        if point.at < plan.job.max_gpus
    ]


def _change(point: CurvePoint) -> str:
    error = f"(+-{point.more_error_usd:.2f})"
    if abs(point.more_usd) <= point.more_error_usd:
        return f"make no difference that these futures show: {point.more_usd:+.2f} USD {error}"
    return f"{'save' if point.more_usd < 0 else 'cost'} {_usd(abs(point.more_usd))} {error}"


def _best(plan: JobPlan) -> str:
    if plan.clairvoyant_spare_usd is None:
        return "no policy can do better"
    return words.spare(plan.clairvoyant_spare_usd, plan.outlooks[-1].futures.mean_cost_usd) + " on average"


def _row(outlook: Outlook, *, chosen: bool) -> list[str]:
    ahead, past = outlook.futures, outlook.history
    return [
        f"{outlook.policy}{' <' if chosen else ''}",
        *(f"{value:.2f}" for value in _three(ahead.cost_usd)),
        _hours(ahead.finish_hours.p50),
        _hours(ahead.finish_hours.p90),
        f"{ahead.on_time_share:.0%}",
        f"{ahead.mean_spot_gpu_hours:.1f}",
        f"{ahead.mean_on_demand_gpu_hours:.1f}",
        f"{past.cost_usd.p50:.2f}",
        f"{past.on_time_share:.0%}",
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _gpus(plan: JobPlan) -> str:
    """Draw the mean GPUs held over time: spot as '#', on demand as 'o'."""
    bars = [_bar(part, plan.job.max_gpus) for part in _parts(plan.gpus)]
    return "\n".join(("GPUs held over time, on average (# spot, o on demand):", *bars))


def _parts(held: Sequence[HeldAt]) -> list[Sequence[HeldAt]]:
    size = math.ceil(len(held) / TIME_ROWS)
    return [held[at : at + size] for at in range(0, len(held), size)]


def _bar(part: Sequence[HeldAt], widest: int) -> str:
    spot = sum(held.spot_gpus for held in part) / len(part)
    on_demand = sum(held.on_demand_gpus for held in part) / len(part)
    marks = "#" * round(BAR_WIDTH * spot / widest) + "o" * round(BAR_WIDTH * on_demand / widest)
    counts = f"{spot:5.1f} spot {on_demand:5.1f} on demand"
    return f"  from {_hours(part[0].hours):>7}  {marks:<{BAR_WIDTH + 1}} {counts}"


def _pools(plan: JobPlan) -> str:
    if len(plan.pools) < 2:
        return ""
    tried = ", ".join(f"{name} {usd:.2f}" for name, usd in plan.pools)
    return f"Pools, with the median bill of recent starts under uniform-progress (USD): {tried}."


def advice_words(plan: JobPlan) -> str:
    """Advise in a sentence how often to save; nothing where nothing would be lost."""
    advice, job = plan.checkpoints, plan.job
    if advice is None:
        return ""
    taken = f"some of {advice.spot_gpus} spot GPUs" if advice.spot_gpus > 1 else "a spot GPU"
    saving = "is assumed to take" if advice.takes_assumed else "takes"
    return (
        f"Save a checkpoint about every {words.about(advice.every_hours)}: this market takes back {taken} "
        f"every {words.about(advice.hours_between_losses)} on average, and saving {saving} "
        f"{words.about(advice.takes_hours)}; the job file {_said_of_saving(job.checkpoint_hours)}."
    )


def _said_of_saving(every_hours: float) -> str:
    if math.isinf(every_hours):
        return "has no checkpoints"
    return f"says every {format_duration(every_hours)}" if every_hours else "does not say how often"


def _assumptions(plan: JobPlan) -> str:
    market = f"  - market: {plan.market}"
    return "\n".join(("This assumes that", *(f"  - {sentence}" for sentence in plan.assumptions), market))


def _of(spread: Spread) -> str:
    return f"{round(spread.on_time_share * spread.runs)} of {spread.runs}"


def _three(values: Range) -> tuple[float, float, float]:
    return values.p10, values.p50, values.p90


def _usd(value: float) -> str:
    return f"{value:.2f} USD"


def _hours(value: float) -> str:
    return format_duration(value) if math.isfinite(value) else "never"
