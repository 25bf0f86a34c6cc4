"""The answer to a budget: what to rent, what it and other budgets buy, and the frontier with its widths."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.budget.fit import under_hull
from slacktide.budget.width_plan import STEP_SHARE, BudgetStep, WidthPlan
from slacktide.core.speedup import Table
from slacktide.core.types import ANY_WIDTH
from slacktide.core.units import HOURS_PER_MONTH, format_usd
from slacktide.report import words
from slacktide.report.text.tables.grid import Grid, TableOf, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slacktide.budget.widths import ClassPlan, FleetPlan, WidthShare

MAX_CLASSES = 24  # classes with a line of their own, those that spend most; the rest are counted in one
RUNS = 4  # runs of equal widths that are written out; of more, those in the middle are left out
ALIKE = 1.02  # real widths closer than this ratio are written as one
_listed = partial(words.listed, most=6)  # how many classes or points a sentence names; the rest are counted
LEAST_SHARE = 0.001  # a measured point that lies closer to the hull than this is not mentioned


class RequestedBudget(NamedTuple):
    """What was requested, as it was written."""

    source: str  # the fleet file
    budget: str  # the budget as written
    response_hours: float | None = None
    """The mean response that was requested, where the budget is the answer."""


def page(answer: WidthPlan, requested: RequestedBudget) -> list[Any]:
    """Return things to print: the budget, the classes, what they buy, other budgets, and notes."""
    return printable(
        head(answer, requested),
        [classes(answer)],
        [_bought(answer)],
        [steps(answer)],
        (f"- {note}" for note in notes(answer)),
    )


def head(answer: WidthPlan, requested: RequestedBudget) -> list[str]:
    """State the budget in GPUs and money, and the least budget that keeps up with the jobs."""
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
    table = TableOf(pairs)
    table.words("class", lambda pair: words.plain(pair[0].name, 40), breaks=True)
    table.number("arrivals", lambda pair: words.rate(pair[0].arrivals_per_hour))
    table.number("GPU-h", lambda pair: f"{pair[0].work_gpu_hours:.3g}", narrow="work\nGPU-h")
    table.words("width", lambda pair: ways(pair[1]), breaks=True, narrow="width\nGPUs")
    table.number("response", lambda pair: words.response(pair[1].response_hours), narrow="mean\nresponse")
    table.number("average GPUs", lambda pair: words.gpus(pair[1].average_gpus))
    table.number("of spend", lambda pair: words.share(pair[1].average_gpus / plan.average_gpus))
    if left := len(plan.classes) - len(pairs):
        rest = plan.average_gpus - sum(class_plan.average_gpus for _, class_plan in pairs)
        spent = words.gpus(rest), words.share(rest / plan.average_gpus)
        table.last_row(f"{left} others", "", "", "", "", *spent)
    total = words.rate(sum(one.arrivals_per_hour for one in plan.job_classes))
    mean = words.response(plan.mean_response_hours)
    table.last_row("all", total, "", "", mean, words.gpus(plan.average_gpus), "100 %")
    return table.grid(strong=-1)


def steps(answer: WidthPlan) -> Grid:
    """Return what other budgets would buy, the budget itself among them."""
    plan, other_budgets = answer.plan, list(answer.steps())
    here = sum(step.budget_gpus < plan.budget_gpus for step in other_budgets)
    other_budgets.insert(here, BudgetStep("here", plan.budget_gpus, plan.mean_response_hours, 0.0))
    labels = {
        "here": "this one",
        "less": f"{words.percent(STEP_SHARE)} less",
        "more": f"{words.percent(STEP_SHARE)} more",
        "gpu": "1 GPU more",
        "usd": "$1 per hour more",
        "fastest": "the most that helps",
    }
    table = TableOf(other_budgets)
    table.words("budget", lambda step: labels[step.kind])
    table.number("GPUs", lambda step: words.gpus(step.budget_gpus))
    if answer.usd_per_gpu_hour is not None:
        table.number("per month", lambda step: words.per_month(answer.usd_per_month(step.budget_gpus)))
    table.number("mean response", lambda step: words.response(step.mean_response_hours))
    table.number("each job", lambda step: "" if step.kind == "here" else words.sooner(step.saved_hours))
    return table.grid(strong=here)


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
    """Say what GPUs cost per hour and per month, without a period that `mentioned` ends with."""
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


def frontier_page(answer: WidthPlan, requested: RequestedBudget, room: int) -> list[Any]:
    """Return things to print: the budget, and the frontier with the widths of the classes along it."""
    table = frontier(answer, room)
    legend = ["widths in GPUs; a|b: two widths share the class's jobs; a→b: from phase to phase"]
    others = 4 if answer.usd_per_gpu_hour is not None else 3
    if left := len(answer.plan.classes) - (len(table.columns) - others):
        legend.append(f"no room for {words.count(left, 'column')} more; -o json has all classes")
    return printable(head(answer, requested), [table], legend)


def frontier(answer: WidthPlan, room: int) -> Grid:
    """Return plans along the frontier, this budget's pointed out, with the classes that fit."""
    plans = sorted((*answer.rows(), answer.plan), key=lambda plan: plan.budget_gpus)
    shown = most_expensive(answer.plan)[:MAX_CLASSES]
    table = _frontier_of(answer, plans, shown)
    while shown and _width(table) > room:
        shown = shown[:-1]
        table = _frontier_of(answer, plans, shown)
    return table


def _frontier_of(answer: WidthPlan, plans: list[FleetPlan], shown: list[int]) -> Grid:
    table = TableOf(plans)
    table.number("GPUs", lambda plan: words.gpus(plan.budget_gpus))
    if answer.usd_per_gpu_hour is not None:
        table.number("per month", lambda plan: words.per_month(answer.usd_per_month(plan.budget_gpus)))
    table.number("mean response", lambda plan: words.response(plan.mean_response_hours))
    table.number("saves", partial(_saved_by_a_gpu, answer), narrow="+1 GPU\nsaves")
    for place in sorted(shown):
        table.number(words.plain(answer.plan.classes[place].name, 16), partial(_short_ways, place))
    return table.grid(strong=plans.index(answer.plan))


def _saved_by_a_gpu(answer: WidthPlan, plan: FleetPlan) -> str:
    wider = answer.frontier.plan_at(plan.budget_gpus + 1)
    saved = plan.mean_response_hours - wider.mean_response_hours
    return words.response(saved) if saved > 1e-9 else words.NOTHING


def _short_ways(place: int, plan: FleetPlan) -> str:
    """Write how one class is run, without the shares of its jobs."""
    return "|".join(path(one.widths) for one in plan.classes[place].paths)


def _width(table: Grid) -> int:
    """Return how many characters wide a table is; headings are wrapped at spaces."""
    headings = (max(map(len, column.heading.split())) for column in table.columns)
    cells = (max(map(len, cells)) for cells in zip(*table.rows, strict=True))
    return sum(max(pair) + 2 for pair in zip(headings, cells, strict=True))


def most_expensive(plan: FleetPlan) -> list[int]:
    """Return the indexes of the classes, those that spend most first."""
    return sorted(range(len(plan.classes)), key=lambda place: -plan.classes[place].average_gpus)


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
    for job_class in answer.plan.job_classes:
        tables = dict.fromkeys(
            phase.speedup for phase in job_class.phases if isinstance(phase.speedup, Table)
        )
        replaced = [
            f"{point.speedup:.3g} at {point.gpus:g} GPUs by {point.hull_speedup:.3g}"
            for table in tables
            for point in under_hull(table, LEAST_SHARE)
        ]
        if replaced:
            points = _listed(replaced)
            yield f"{job_class.name}: measured speedups are not concave; their hull replaces {points}"


def _assumed(answer: WidthPlan) -> Iterator[str]:
    yield "assumes that GPUs start and stop instantly, so no job waits"
    if answer.usd_per_gpu_hour is not None:
        price = format_usd(answer.usd_per_gpu_hour)
        yield f"a GPU-hour costs {price} on average; a month is {HOURS_PER_MONTH:g} hours"
