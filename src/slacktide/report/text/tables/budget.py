"""The answer to a budget: what to rent, what it and other budgets buy, and the frontier with its widths."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.budget.fit import under_hull
from slacktide.budget.width_plan import STEP_SHARE, BudgetStep, WidthPlan
from slacktide.core.speedup import Table
from slacktide.core.types import ANY_WIDTH
from slacktide.core.units import HOURS_PER_MONTH, format_usd
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid, left, right

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slacktide.budget.classes import JobClass
    from slacktide.budget.widths import ClassPlan, FleetPlan, WidthShare

MAX_CLASSES = 24  # classes with a line of their own, those that spend most; the rest are counted in one
ROOM = 160  # characters in a line of the frontier, unless given
RUNS = 4  # stretches of equal width that are written out; of more, those in the middle are left out
ALIKE = 1.02  # real widths closer than this ratio are written as one
NAMED = 6  # how many classes or points a sentence names; the rest are counted
LEAST_SHARE = 0.001  # a measured point that lies closer to the hull than this is not worth a word


class RequestedBudget(NamedTuple):
    """What was requested, as it was written."""

    source: str  # the fleet file
    budget: str  # the budget as written
    response_hours: float | None = None
    """The mean response that was requested, where the budget is the answer."""


def page(answer: WidthPlan, requested: RequestedBudget) -> list[Any]:
    """Return things to print: the budget, the classes, what they buy, other budgets, and notes."""
    return [
        *lines(head(answer, requested)),
        "",
        grid.as_rich(classes(answer)),
        "",
        *lines([_bought(answer)]),
        "",
        grid.as_rich(steps(answer)),
        "",
        *lines(f"- {note}" for note in notes(answer)),
    ]


def head(answer: WidthPlan, requested: RequestedBudget) -> list[str]:
    """Say what the budget is in GPUs and money, and what the least would be."""
    plan, name = answer.plan, words.plain(Path(requested.source).name, 60)
    budget, here = words.plain(requested.budget, 40), words.gpus(plan.budget_gpus)
    if requested.response_hours is not None:
        target = words.response(requested.response_hours)
        first = (
            f"{name}: a mean response of {target} needs {here} GPUs on average"
            f"{_money(answer, plan.budget_gpus)}; the file's budget is {budget}"
        )
    else:
        same = "" if budget.lower().endswith(("gpu", "gpus")) else f" rents {here} GPUs on average"
        first = f"{name}: a budget of {budget}{same}{_money(answer, plan.budget_gpus, mentioned=budget)}"
    kinds = "1 class" if len(plan.classes) == 1 else f"{len(plan.classes)} classes"
    arrivals = words.rate(sum(one.arrivals_per_hour for one in plan.job_classes))
    least = f"{words.gpus(answer.least_budget_gpus)} GPUs{_money(answer, answer.least_budget_gpus)}"
    return [first, f"jobs of {kinds} arrive at {arrivals}; the minimum that keeps up with them is {least}"]


def classes(answer: WidthPlan) -> Grid:
    """Return one line for each class, those that spend most where there are many, and one for all."""
    plan = answer.plan
    pairs = list(zip(plan.job_classes, plan.classes, strict=True))
    if len(pairs) > MAX_CLASSES:
        pairs = sorted(pairs, key=lambda pair: -pair[1].average_gpus)[:MAX_CLASSES]
    rows = [_class_row(answer, one, found) for one, found in pairs]
    if left := len(plan.classes) - len(rows):
        shown = sum(found.average_gpus for _, found in pairs)
        rest = plan.average_gpus - shown
        spent = words.gpus(rest), words.share(rest / plan.average_gpus)
        rows.append((f"{left} others", "", "", "", "", *spent))
    total = words.rate(sum(one.arrivals_per_hour for one in plan.job_classes))
    mean = words.response(plan.mean_response_hours)
    rows.append(("all", total, "", "", mean, words.gpus(plan.average_gpus), "100 %"))
    return Grid(
        (
            Column("class", right=False, breaks=True), Column("arrivals"),
            Column("GPU-h", narrow="work\nGPU-h"),
            Column("width", right=False, breaks=True, narrow="width\nGPUs"),
            Column("response", narrow="mean\nresponse"), Column("average GPUs"), Column("of spend"),
        ),
        tuple(rows),
        strong=len(rows) - 1,
    )  # fmt: skip


def _class_row(answer: WidthPlan, one: JobClass, found: ClassPlan) -> tuple[str, ...]:
    return (
        words.plain(one.name, 40),
        words.rate(one.arrivals_per_hour),
        f"{one.work_gpu_hours:.3g}",
        ways(found),
        words.response(found.response_hours),
        words.gpus(found.average_gpus),
        words.share(found.average_gpus / answer.plan.average_gpus),
    )


def steps(answer: WidthPlan) -> Grid:
    """Return what other budgets would buy, the budget itself among them."""
    plan = answer.plan
    rows = [_step_row(answer, step) for step in answer.steps()]
    here = sum(step.budget_gpus < plan.budget_gpus for step in answer.steps())
    rows.insert(here, _step_row(answer, BudgetStep("here", plan.budget_gpus, plan.mean_response_hours, 0.0)))
    columns = (*left("budget"), *right("GPUs", "per month", "mean response", "each job"))
    grid = Grid(columns, tuple(rows), strong=here)
    return grid if answer.usd_per_gpu_hour is not None else without(grid, 2)


def _step_row(answer: WidthPlan, step: BudgetStep) -> tuple[str, ...]:
    label = {
        "here": "this one",
        "less": f"{words.percent(STEP_SHARE)} less",
        "more": f"{words.percent(STEP_SHARE)} more",
        "gpu": "1 GPU more",
        "usd": "$1 per hour more",
        "fastest": "the most that helps",
    }[step.kind]
    money = words.per_month(answer.usd_per_month(step.budget_gpus))
    mean = words.response(step.mean_response_hours)
    return (
        label,
        words.gpus(step.budget_gpus),
        money,
        mean,
        "" if step.kind == "here" else words.sooner(step.saved_hours),
    )


def _bought(answer: WidthPlan) -> str:
    """Say what the budget buys, and what one width for all would."""
    mean = words.response(answer.plan.mean_response_hours)
    one = answer.one_width
    if one is None:
        return f"A job finishes {mean} after it arrives, on average; no single width for all fits the budget."
    ratio = one.mean_response_hours / answer.plan.mean_response_hours
    return (
        f"A job finishes {mean} after it arrives, on average. One width for all "
        f"({shared_widths(one.widths)}) would take {words.response(one.mean_response_hours)}, "
        f"{words.ratio(ratio)} as long, for the same money."
    )


def _money(answer: WidthPlan, gpus: float, mentioned: str = "") -> str:
    """Say what GPUs cost, over periods that were not mentioned yet."""
    if answer.usd_per_gpu_hour is None:
        return ""
    amounts = {
        "hour": format_usd(gpus * answer.usd_per_gpu_hour),
        "month": words.per_month(answer.usd_per_month(gpus)),
    }
    left = (
        f"{usd} per {period}" for period, usd in amounts.items() if not mentioned.lower().endswith(period)
    )
    return f" ({', '.join(left)})"


def frontier_page(answer: WidthPlan, requested: RequestedBudget, room: int = ROOM) -> list[Any]:
    """Return things to print: the budget, and the frontier with the widths of the classes along it."""
    table = frontier(answer, room)
    legend = ["widths in GPUs; a|b: two widths share the class's jobs; a→b: from phase to phase"]
    left = len(answer.plan.classes) - (len(table.columns) - (4 if answer.usd_per_gpu_hour is not None else 3))
    if left:
        legend.append(f"no room for {words.count(left, 'column')} more; -o json has all classes")
    return [*lines(head(answer, requested)), "", grid.as_rich(table), "", *lines(legend)]


def frontier(answer: WidthPlan, room: int = ROOM) -> Grid:
    """Return plans along the frontier, this budget's pointed out, with the classes that fit."""
    plans = sorted((*answer.rows(), answer.plan), key=lambda plan: plan.budget_gpus)
    shown = most_expensive(answer.plan)[:MAX_CLASSES]
    table = _frontier_of(answer, plans, shown)
    while shown and _width(table) > room:
        shown = shown[:-1]
        table = _frontier_of(answer, plans, shown)
    return table


def _frontier_of(answer: WidthPlan, plans: list[FleetPlan], shown: list[int]) -> Grid:
    places = sorted(shown)
    rows = tuple(_frontier_row(answer, plan, places) for plan in plans)
    columns = (
        *right("GPUs", "per month", "mean response"), Column("saves", narrow="+1 GPU\nsaves"),
        *(Column(words.plain(answer.plan.classes[place].name, 16)) for place in places),
    )  # fmt: skip
    table = Grid(columns, rows, strong=plans.index(answer.plan))
    return table if answer.usd_per_gpu_hour is not None else without(table, 1)


def _width(table: Grid) -> int:
    """Return the signs that a table takes on a line; headings are broken at blanks."""
    headings = (max(map(len, column.heading.split())) for column in table.columns)
    cells = (max(map(len, cells)) for cells in zip(*table.rows, strict=True))
    return sum(max(pair) + 2 for pair in zip(headings, cells, strict=True))


def _frontier_row(answer: WidthPlan, plan: FleetPlan, places: list[int]) -> tuple[str, ...]:
    wider = answer.frontier.plan_at(plan.budget_gpus + 1)
    saved = plan.mean_response_hours - wider.mean_response_hours
    return (
        words.gpus(plan.budget_gpus),
        words.per_month(answer.usd_per_month(plan.budget_gpus)),
        words.response(plan.mean_response_hours),
        words.response(saved) if saved > 1e-9 else words.NOTHING,
        *(short_ways(plan.classes[place]) for place in places),
    )


def most_expensive(plan: FleetPlan) -> list[int]:
    """Return the places of the classes, those that spend most first."""
    return sorted(range(len(plan.classes)), key=lambda place: -plan.classes[place].average_gpus)


def without(table: Grid, place: int) -> Grid:
    """Leave out a column."""
    return table._replace(
        columns=table.columns[:place] + table.columns[place + 1 :],
        rows=tuple(row[:place] + row[place + 1 :] for row in table.rows),
    )


def lines(sentences: Iterable[str]) -> list[Any]:
    """Return sentences as they are: what comes from files is never read as markup."""
    from rich.text import Text

    return [Text(sentence) for sentence in sentences]


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


def notes(answer: WidthPlan) -> list[str]:
    """Return every sentence that applies to an answer."""
    return [*_saturated(answer), *_mixed(answer), *_widest(answer), *_hulls(answer), *_assumed(answer)]


def _saturated(answer: WidthPlan) -> Iterator[str]:
    if answer.saturated and answer.plan.average_gpus < answer.plan.budget_gpus * (1 - 1e-9):
        spare = answer.plan.budget_gpus - answer.plan.average_gpus
        money = answer.usd_per_month(spare)
        worth = f" ({words.per_month(money)} per month)" if answer.usd_per_gpu_hour is not None else ""
        yield f"every class is at its fastest: {words.gpus(spare)} GPUs of the budget{worth} buy nothing"


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
