"""What to know about the answer to a budget: sentences that go with every form of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slacktide.budget.fit import under_hull
from slacktide.core.speedup import Table
from slacktide.core.types import ANY_WIDTH
from slacktide.core.units import HOURS_PER_MONTH, format_usd
from slacktide.report import words
from slacktide.report.text.sentences import budget as say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slacktide.budget.answer import BudgetAnswer
    from slacktide.budget.classes import JobClass

NAMED = 6
"""How many classes or points a sentence names; the rest are counted."""
LEAST_SHARE = 0.001
"""A measured point that lies closer to the hull than this is not worth a word."""


def notes(answer: BudgetAnswer) -> list[str]:
    """Return every sentence that applies to an answer."""
    return [*_saturated(answer), *_mixed(answer), *_widest(answer), *_hulls(answer), *_assumed(answer)]


def _saturated(answer: BudgetAnswer) -> Iterator[str]:
    if answer.saturated and answer.plan.average_gpus < answer.plan.budget_gpus * (1 - 1e-9):
        spare = answer.plan.budget_gpus - answer.plan.average_gpus
        money = answer.usd_per_month(spare)
        worth = f" ({say.per_month(money)} per month)" if answer.usd_per_gpu_hour is not None else ""
        yield f"every class is at its fastest: {say.gpus(spare)} GPUs of the budget{worth} buy nothing"


def _mixed(answer: BudgetAnswer) -> Iterator[str]:
    for plan in answer.plan.classes:
        if len(plan.paths) > 1:
            narrow, wide = plan.paths
            yield (
                f"{plan.name} is mixed to use up the budget: {words.percent(narrow.share)} of its jobs run "
                f"on {say.path(narrow.widths)} GPUs, {words.percent(wide.share)} on {say.path(wide.widths)}"
            )


def _widest(answer: BudgetAnswer) -> Iterator[str]:
    widest = [
        one
        for one, plan in zip(answer.plan.job_classes, answer.plan.classes, strict=True)
        if one.widths[-1] > one.widths[0] and all(min(path.widths) == one.widths[-1] for path in plan.paths)
    ]
    if found := [f"{one.name} ({one.widths[-1]})" for one in widest]:
        yield f"already at their maximum width, so money cannot speed them up: {_listed(found)}"
    if unlimited := [one.name for one in widest if one.widths == ANY_WIDTH]:
        yield f"say which widths are possible, or how they scale, before renting that: {_listed(unlimited)}"


def _hulls(answer: BudgetAnswer) -> Iterator[str]:
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


def _assumed(answer: BudgetAnswer) -> Iterator[str]:
    yield "assumes that GPUs start and stop instantly, so no job waits"
    if answer.usd_per_gpu_hour is not None:
        price = format_usd(answer.usd_per_gpu_hour)
        yield f"a GPU-hour costs {price} on average; a month is {HOURS_PER_MONTH:g} hours"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
