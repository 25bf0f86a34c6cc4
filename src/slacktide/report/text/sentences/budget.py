"""Widths, rates and money of a fleet as people say them, and the notes that go with a budget's answer."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from slacktide.budget.fit import under_hull
from slacktide.core.speedup import Table
from slacktide.core.types import ANY_WIDTH
from slacktide.core.units import HOURS_PER_MONTH, PERIOD_HOURS, format_usd
from slacktide.report import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slacktide.budget.classes import JobClass
    from slacktide.budget.width_plan import WidthPlan
    from slacktide.budget.widths import ClassPlan, WidthShare

RUNS = 4  # stretches of equal width that are written out; of more, those in the middle are left out

ALIKE = 1.02  # real widths closer than this ratio are written as one
NAMED = 6  # how many classes or points a sentence names; the rest are counted
LEAST_SHARE = 0.001  # a measured point that lies closer to the hull than this is not worth a word


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
    """Write a share in whole percent, and what is less than half of one as such."""
    return "< 1 %" if 0 < part < 0.005 else words.percent(part)


def width(count: float) -> str:
    """Write a width: whole, or with two digits where it is not."""
    return f"{count:g}" if count == int(count) else f"{count:.2f}"


def path(widths: Sequence[float]) -> str:
    """Write the widths of all phases, equal neighbours once: `8×2→16`."""
    runs = [(value, len(list(same))) for value, same in groupby(widths)]
    texts = [width(value) + (f"×{times}" if times > 1 else "") for value, times in runs]
    if len(texts) > RUNS:
        texts = [*texts[: RUNS - 1], "…", texts[-1]]
    return "→".join(texts)


def ways(plan: ClassPlan) -> str:
    """Write how a class is run: its width, or both with their shares where it is mixed."""
    if len(plan.paths) == 1:
        return path(plan.paths[0].widths)
    return ", ".join(f"{path(one.widths)} ({words.percent(one.share)})" for one in plan.paths)


def short_ways(plan: ClassPlan) -> str:
    """Write the same without shares."""
    return "|".join(path(one.widths) for one in plan.paths)


def shared_widths(shares: Sequence[WidthShare]) -> str:
    """Write one width for all, or two with the share of jobs that has the second."""
    if len(shares) == 1:
        return f"{width(shares[0].gpus)} GPUs"
    low, high = shares
    if high.gpus / low.gpus < ALIKE:
        return f"{width((1 - high.share) * low.gpus + high.share * high.gpus)} GPUs"
    return f"{width(low.gpus)} GPUs, {width(high.gpus)} for {words.percent(high.share)} of them"


def sooner(hours: float) -> str:
    """Write how much sooner a job is done, or later."""
    if abs(hours) < 0.5 / 3600:
        return "the same"
    seconds = round(abs(hours) * 3600) / 3600
    return f"{words.duration(seconds)} {'sooner' if hours > 0 else 'later'}"


def response(hours: float) -> str:
    """Write a response time to the minute, below an hour to the second."""
    return words.duration(round(hours * 3600) / 3600 if hours * 3600 >= 1 else hours)


def notes(answer: WidthPlan) -> list[str]:
    """Return every sentence that applies to an answer."""
    return [*_saturated(answer), *_mixed(answer), *_widest(answer), *_hulls(answer), *_assumed(answer)]


def _saturated(answer: WidthPlan) -> Iterator[str]:
    if answer.saturated and answer.plan.average_gpus < answer.plan.budget_gpus * (1 - 1e-9):
        spare = answer.plan.budget_gpus - answer.plan.average_gpus
        money = answer.usd_per_month(spare)
        worth = f" ({per_month(money)} per month)" if answer.usd_per_gpu_hour is not None else ""
        yield f"every class is at its fastest: {gpus(spare)} GPUs of the budget{worth} buy nothing"


def _mixed(answer: WidthPlan) -> Iterator[str]:
    for plan in answer.plan.classes:
        if len(plan.paths) > 1:
            narrow, wide = plan.paths
            yield (
                f"{plan.name} is mixed to use up the budget: {words.percent(narrow.share)} of its jobs run "
                f"on {path(narrow.widths)} GPUs, {words.percent(wide.share)} on {path(wide.widths)}"
            )


def _widest(answer: WidthPlan) -> Iterator[str]:
    widest = [
        one
        for one, plan in zip(answer.plan.job_classes, answer.plan.classes, strict=True)
        if one.widths[-1] > one.widths[0] and all(min(path.widths) == one.widths[-1] for path in plan.paths)
    ]
    if found := [f"{one.name} ({one.widths[-1]})" for one in widest]:
        yield f"already at their maximum width, so money cannot speed them up: {_listed(found)}"
    if unlimited := [one.name for one in widest if one.widths == ANY_WIDTH]:
        yield f"say which widths are possible, or how they scale, before renting that: {_listed(unlimited)}"


def _hulls(answer: WidthPlan) -> Iterator[str]:
    for one in answer.plan.job_classes:
        points = _points_under(one)
        if points:
            yield f"{one.name}: measured speedups are not concave; their hull replaces {_listed(points)}"


def _points_under(one: JobClass) -> list[str]:
    found = []
    for table in {phase.speedup: None for phase in one.phases if isinstance(phase.speedup, Table)}:
        found += [
            f"{point.speedup:.3g} at {point.gpus:g} GPUs by {point.hull_speedup:.3g}"
            for point in under_hull(table, LEAST_SHARE)
        ]
    return found


def _assumed(answer: WidthPlan) -> Iterator[str]:
    yield "assumes that GPUs start and stop instantly, so no job waits"
    if answer.usd_per_gpu_hour is not None:
        price = format_usd(answer.usd_per_gpu_hour)
        yield f"a GPU-hour costs {price} on average; a month is {HOURS_PER_MONTH:g} hours"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
