"""`slacktide budget`: how wide each kind of job should run, what that buys, and what more would buy."""

from __future__ import annotations

from typing import Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json, line_length, print_rich


@click.command()
@click.argument("fleet", type=click.Path(), metavar="FLEET")
@click.option(
    "--budget",
    "budget_text",
    metavar="BUDGET",
    help="Use this budget instead: '20 gpus', '40 usd/hour', '20000 usd/month'.",
)
@click.option(
    "--response",
    "response_hours",
    type=common.Duration(),
    help="Find the cheapest budget for this mean response, e.g. 2h.",
)
@click.option("--continuous", is_flag=True, help="Let widths be any real number, as the theory does.")
@click.option("--frontier", is_flag=True, help="Show what every budget buys, with the widths of every class.")
@common.plot_option("Also plot the frontier")
@common.output_option("table", "json", "csv")
def budget(fleet: str, **given: Any) -> None:
    """Compute how wide each class of FLEET should run on its average budget, and what that buys.

    FLEET is a YAML file: a budget, and classes of jobs that keep arriving. The widths are optimal over all
    ways to run the stream without knowing its future. Exits with 3 when the budget is too small, and says
    what the minimum is.
    """
    from slacktide.app.fleets.budgets import BudgetRequest, find_budget
    from slacktide.report.text.tables.fleets.budget import RequestedBudget

    request = BudgetRequest(
        path=fleet,
        budget=given["budget_text"],
        response_hours=given["response_hours"],
        integer=not given["continuous"],
    )
    found = find_budget(request)
    answer, requested = found.answer, RequestedBudget(fleet, found.budget, request.response_hours)
    _print(answer, requested, given)
    if given["plot"] is not None:
        from slacktide.report.figures.budget import plot_budget

        plot_budget(answer, requested, given["plot"])
        click.echo(f"wrote {given['plot']}", err=True)


def _print(answer: Any, requested: Any, given: dict[str, Any]) -> None:
    from slacktide.report.text.tables.fleets.budget import page
    from slacktide.report.text.tables.fleets.budget_frontier import frontier_page
    from slacktide.report.wire.budget import as_json, csv_text

    if given["output"] == "json":
        echo_json(as_json(answer, requested, frontier=given["frontier"]))
    elif given["output"] == "csv":
        click.echo(csv_text(answer, frontier=given["frontier"]), nl=False)
    elif given["frontier"]:
        print_rich(*frontier_page(answer, requested, line_length()))
    else:
        print_rich(*page(answer, requested))
