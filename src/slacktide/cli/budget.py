"""`slacktide budget`: how wide each kind of job should run, what that buys, and what more would buy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.errors import InputError

if TYPE_CHECKING:
    from slacktide.jobfile import FleetFile


@click.command()
@click.argument("fleet", type=click.Path(), metavar="FLEET")
@click.option(
    "--budget",
    "budget_text",
    metavar="BUDGET",
    help="Use this budget instead:  '20 gpus', '40 usd/hour', '20000 usd/month'.",
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
    from slacktide.app.streams import budget as find
    from slacktide.jobfile import read_fleet_file
    from slacktide.report.tables.budget import Asked

    if given["budget_text"] is not None and given["response_hours"] is not None:
        raise InputError("only one of --budget and --response may be given, got both")
    file = read_fleet_file(fleet)
    answer = find(
        file.classes,
        None if given["response_hours"] is not None else budget_gpus(file, given["budget_text"]),
        mean_response_hours=given["response_hours"],
        usd_per_gpu_hour=file.usd_per_gpu_hour,
        integer=not given["continuous"],
    )
    asked = Asked(fleet, given["budget_text"] or file.budget, given["response_hours"])
    _print(answer, asked, given)
    if given["plot"] is not None:
        from slacktide.report.figures.budget import plot_budget

        plot_budget(answer, asked, given["plot"])
        click.echo(f"wrote {given['plot']}", err=True)


def budget_gpus(file: FleetFile, text: str | None) -> float:
    """Return the GPUs of a `--budget`, or of the file where none was given."""
    from slacktide.jobfile.fleet import gpus_of
    from slacktide.units import parse_budget

    if not file.classes:
        raise InputError(
            f"{file.path}: a fleet must have classes to know its widths, got none; add 'classes:'"
        )
    if text is None and math.isinf(file.budget_gpus):
        raise InputError(
            f"{file.path}: widths on an average budget need the price of a GPU-hour, got only a market; "
            "write for instance 'price: 2.50 usd'"
        )
    if text is None:
        return file.budget_gpus
    try:
        return gpus_of(parse_budget(text), file.usd_per_gpu_hour)
    except InputError as error:
        raise InputError(f"--budget: {error}") from error


def _print(answer: Any, asked: Any, given: dict[str, Any]) -> None:
    from slacktide.report.tables.budget import page
    from slacktide.report.tables.budget_frontier import frontier_page
    from slacktide.report.wire.budget import as_json, csv_text

    if given["output"] == "json":
        common.echo_json(as_json(answer, asked, frontier=given["frontier"]))
    elif given["output"] == "csv":
        click.echo(csv_text(answer, frontier=given["frontier"]), nl=False)
    elif given["frontier"]:
        common.show(*frontier_page(answer, asked, common.line_length()))
    else:
        common.show(*page(answer, asked))
