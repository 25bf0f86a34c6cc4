"""`slacktide simulate`: a fleet under allocators, compared at equal realised spending."""

from __future__ import annotations

from typing import Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import ProgressBar, echo_json, print_rich


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
    from slacktide.app.fleets.stream_question import StreamQuestion, read_fleet_file, simulate_stream
    from slacktide.cli.commands.fleet.simulate_fleet import (
        asked_of_jobs,
        check_stream_options,
        simulate_on_market,
    )
    from slacktide.report.text.tables.fleets.streams import Simulated

    file = read_fleet_file(fleet)
    if file.market is not None or given["market"] is not None:
        simulate_on_market(fleet, file, given)
        return
    check_stream_options(given)
    question = StreamQuestion(
        **asked_of_jobs(fleet, file, given),
        node_gpus=given["node_gpus"],
        provisioning_hours=given["provisioning"],
        idle_grace_hours=given["idle_grace"],
    )
    with ProgressBar("simulating") as bar:
        found = simulate_stream(question, progress=bar)
    _print(found.comparison, Simulated(fleet, found.told, file.usd_per_gpu_hour), given["output"])
    if given["plot"] is not None:
        from slacktide.report.figures.stream import plot_streams

        plot_streams(found.comparison, given["plot"])
        click.echo(f"wrote {given['plot']}", err=True)


def _print(found: Any, asked: Any, output: str) -> None:
    from slacktide.report.text.tables.fleets import streams
    from slacktide.report.wire import streams as stream_export

    if output == "json":
        echo_json(stream_export.as_json(found, asked))
    elif output == "csv":
        click.echo(stream_export.csv_text(found, asked), nl=False)
    else:
        print_rich(*streams.page(found, asked))
