"""`slacktide backtest`: compares policies at many start times of a market, next to the clairvoyant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.job_requests import backtest_request, on_market
from slacktide.cli.shared.journals import is_remote, server_option
from slacktide.cli.shared.output import ProgressBar, echo_json, print_rich

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.market_options
@click.option(
    "--policy",
    "policy",
    multiple=True,
    metavar="A,B,...",
    help="Policies to try, by name, module:Class or {name: {parameter: value}}.",
)
@click.option(
    "--starts",
    default="24",
    show_default=True,
    metavar="N|every:2h",
    help="Number of start times, evenly spread, or the time between them.",
)
@click.option(
    "--truth",
    metavar="work=X,speed=Y|random",
    help="What the job really is: X times the work, Y times as fast on all GPUs; or drawn for each start.",
)
@click.option(
    "--sight",
    type=click.Choice(["feed", "tried"]),
    default="feed",
    show_default=True,
    help="What a job that may move knows of other pools: feed, all that they offer; tried, their prices and "
    "whether a try there got GPUs.",
)
@common.on_option
@server_option
@common.report_option("Write a report with plots")
@common.plot_option("Write a plot")
@click.option("-v", "--verbose", is_flag=True, help="Also print each decision of one typical start, and why.")
@common.output_option("table", "json", "csv")
def backtest(job: str, **given: Any) -> None:
    """Compare policies for JOB on past market data, next to a run with perfect foresight.

    JOB is a YAML file. Without --market the job file's market is used, without --policy the
    common ones and the job's own.

    A job that names pools, or one with a policy over pools (roaming-horizon), may move from pool to pool
    unless --pool names one. Policies that stay are then shown in the pool that was best for them.

    --truth tries a job that is not what its file says. Factors may be bounds, between which one is drawn
    for each start: work=0.5..2,seed=3. `random` is work=0.5..2. later=0.85 slows the second half down.

    With --server the server does it, on its own market unless JOB or --market names another.
    """
    if is_remote(given["server"]):
        from slacktide.cli.shared.remote_answers import backtest_on_server

        backtest_on_server(job, given)
        return
    from slacktide.app.planning.backtest import run_backtest
    from slacktide.app.planning.spreading import open_spread

    task = on_market(backtest_request(job, given), given)
    with open_spread(given["on"]) as spread, ProgressBar("back-testing") as bar:
        result = run_backtest(task, progress=bar, spread=spread)
    _print(result, given["output"], verbose=given["verbose"])
    _write(result, given["report"], given["plot"])


def _print(result: Comparison, output: str, *, verbose: bool) -> None:
    from slacktide.report.wire import backtest as wire

    if output == "json":
        echo_json(wire.as_json(result))
    elif output == "csv":
        click.echo(wire.csv_text(result), nl=False)
    else:
        _show(result, verbose=verbose)


def _show(result: Comparison, *, verbose: bool) -> None:
    from slacktide.report.text.tables import backtest as report

    detail = result.detail if verbose else ()
    if sys.stdout.isatty():
        print_rich(report.summary_table(result), *(report.decisions_table(run) for run in detail))
        return
    for text in (report.summary_text(result), *(report.decisions_text(run) for run in detail)):
        click.echo(text)


def _write(result: Comparison, report: str | None, plot: str | None) -> None:
    if plot is not None:
        from slacktide.report.figures.backtest import plot_backtest

        plot_backtest(result, Path(plot))
        click.echo(f"wrote {plot}", err=True)
    if report is not None:
        from slacktide.report.pages.backtest import write_report

        write_report(result, Path(report))
        click.echo(f"wrote {report}", err=True)
