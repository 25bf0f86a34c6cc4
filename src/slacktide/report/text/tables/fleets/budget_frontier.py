"""The frontier as a table: what every budget buys, with the widths of the classes along it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.report import words
from slacktide.report.text.sentences import budget as say
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.fleets.budget import MAX_CLASSES, RequestedBudget, head, lines, without
from slacktide.report.text.tables.grid import Column, Grid

if TYPE_CHECKING:
    from slacktide.budget.fleet_plan import FleetPlan
    from slacktide.budget.width_plan import WidthPlan

ROOM = 160  # characters in a line, unless given


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
    shown = _most_expensive(answer.plan)[:MAX_CLASSES]
    table = _frontier_of(answer, plans, shown)
    while shown and _width(table) > room:
        shown = shown[:-1]
        table = _frontier_of(answer, plans, shown)
    return table


def _frontier_of(answer: WidthPlan, plans: list[FleetPlan], shown: list[int]) -> Grid:
    places = sorted(shown)
    rows = tuple(_frontier_row(answer, plan, places) for plan in plans)
    columns = (
        Column("GPUs"), Column("per month"), Column("mean response"), Column("saves", narrow="+1 GPU\nsaves"),
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
        say.gpus(plan.budget_gpus),
        say.per_month(answer.usd_per_month(plan.budget_gpus)),
        say.response(plan.mean_response_hours),
        say.response(saved) if saved > 1e-9 else words.NOTHING,
        *(say.short_ways(plan.classes[place]) for place in places),
    )


def _most_expensive(plan: FleetPlan) -> list[int]:
    """Return the places of the classes, those that spend most first."""
    return sorted(range(len(plan.classes)), key=lambda place: -plan.classes[place].average_gpus)
