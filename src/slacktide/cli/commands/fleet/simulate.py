"""`slacktide simulate`: a fleet under allocators, compared at equal realised spending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import ProgressBar, echo_json, print_rich

if TYPE_CHECKING:
    from slacktide.results.fleets.fleet_comparison import FleetComparison
    from slacktide.results.fleets.stream import StreamComparison

SAME_NAMES = (
    "jobs", "count", "arrivals", "sizes", "seed", "node_gpus", "start", "hours", "periods", "bound",
)  # fmt: skip
"""Options that are called as in a request."""


@click.command()
@click.argument("fleet", type=click.Path(), metavar="FLEET")
@click.option("--jobs", "jobs", type=click.Path(), metavar="FILE.csv", help="A table of past jobs.")
@click.option(
    "--count",
    type=int,
    help="Number of jobs to generate without --jobs.  [default: 20000; on a market one budget period's]",
)
@click.option(
    "--policy",
    multiple=True,
    metavar="A,B,...",
    help="Allocators to try, by name, module:Class or {name: {parameter: value}}; default: all.",
)
@click.option("--arrivals", metavar="poisson|bursty", help="How jobs arrive, instead of what the file says.")
@click.option(
    "--sizes", metavar="exponential|fixed|lognormal|pareto", help="How work differs between jobs of a class."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same stream.")
@click.option("--budget", "budget_text", metavar="BUDGET", help="Use this budget instead, e.g. '20 gpus'.")
@click.option("--node-gpus", type=int, help="GPUs are rented in nodes of this many.")
@click.option(
    "--provisioning", type=common.Duration(), help="Time from requesting a node until it is ready, e.g. 4m."
)
@click.option("--idle-grace", type=common.Duration(), help="How long an idle node is kept, e.g. 5m.")
@common.market_options
@click.option(
    "--start", type=int, help="Market: the slot in which the jobs' hour 0 is.  [default: by date, or 0]"
)
@click.option(
    "--hours", type=float, help="Market: only jobs of this many hours.  [default: one budget period]"
)
@click.option("--periods", type=float, help="Market: the same in periods of the budget, such as 0.5 or 2.")
@click.option(
    "--csv-jobs",
    type=common.FileEnding(str),
    metavar="FILE.csv",
    help="Market: also write what each job got and why.",
)
@click.option(
    "--bound", is_flag=True, help="Market: also compare with a response that no allocator can beat (slow)."
)
@common.report_option("Market: also write a page with all of it")
@common.plot_option("Also write a plot")
@common.output_option("table", "json", "csv")
def simulate(fleet: str, **given: Any) -> None:
    """Simulate the jobs of FLEET under allocators, compared at equal spending.

    FLEET is a YAML file: a budget, and classes of jobs that keep arriving. A policy given by name only is
    tuned until it actually spends the budget; one with parameters runs as given.

    Where FLEET names a market, its jobs share spot and on-demand GPUs, may have deadlines, and the budget is
    a limit in every period: the first policy is reported in full, the others are tuned to the same spend.
    """
    from slacktide.app.fleets.simulate import run_simulation
    from slacktide.app.fleets.simulate_request import SimulateRequest, read_fleet_file, without_market

    request = SimulateRequest(
        file=read_fleet_file(fleet),
        **{name: given[name] for name in SAME_NAMES},
        budget=given["budget_text"],
        policies=common.parse_policies(given["policy"], fleet),
        provisioning_hours=given["provisioning"],
        idle_grace_hours=given["idle_grace"],
        # `--start` is the slot of hour 0 of the jobs, not where a market is opened.
        market=common.market_spec({**given, "start": None}),
    )
    for name, option in (("report", "--report"), ("csv_jobs", "--csv-jobs")):
        if given[name] and not request.on_market:
            raise without_market(option)
    with ProgressBar("simulating") as bar:
        found = run_simulation(request, progress=bar)
    _print(found, fleet, given["output"])
    _write(found, fleet, given)


def _print(found: StreamComparison | FleetComparison, path: str, output: str) -> None:
    from slacktide.report.text.tables.fleets import compared
    from slacktide.report.wire import fleet as wire

    if output == "json":
        echo_json(wire.as_json(found, path))
    elif output == "csv":
        click.echo(wire.policies_csv(found), nl=False)
    else:
        print_rich(*compared.page(found, path))


def _write(found: StreamComparison | FleetComparison, path: str, given: dict[str, Any]) -> None:
    """Write the files that were named, and say so."""
    from slacktide.results.fleets.stream import StreamComparison

    if isinstance(found, StreamComparison):
        if given["plot"] is not None:
            from slacktide.report.figures.stream import plot_streams

            plot_streams(found, given["plot"])
    else:
        _write_month(found, path, given)
    for name in ("csv_jobs", "plot", "report"):
        if given[name] is not None:
            click.echo(f"wrote {given[name]}", err=True)


def _write_month(found: FleetComparison, path: str, given: dict[str, Any]) -> None:
    if given["csv_jobs"] is not None:
        from slacktide.report.wire.fleet import write_jobs

        write_jobs(found, given["csv_jobs"])
    if given["plot"] is not None:
        from slacktide.report.figures.fleet import plot_fleet

        plot_fleet(found, given["plot"])
    if given["report"] is not None:
        from slacktide.report.pages.fleet import write_fleet

        write_fleet(found, path, given["report"])
