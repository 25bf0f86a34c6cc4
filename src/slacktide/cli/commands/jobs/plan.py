"""`slacktide plan`: estimates what a job would cost and when it would finish, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.job_requests import on_market, plan_request
from slacktide.cli.shared.journals import is_remote, journal_path, place_options
from slacktide.cli.shared.output import ProgressBar, echo_json, warn

if TYPE_CHECKING:
    from slacktide.results.plan import JobPlan


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.market_options
@common.policy_option("The policy to plan with; default: the job file's")
@click.option("--start", type=int, metavar="SLOT", help="The market slot to start in; default: as in a run.")
@place_options
@common.plot_option("Write a plot")
@common.report_option("Write an HTML page with the plot")
@common.output_option("table", "json")
def plan(job: str, **given: Any) -> None:
    """Estimate what JOB would cost and when it would finish, from simulated futures and recent starts.

    A job that names pools, or one with a policy over pools (roaming-horizon), may move from pool to pool
    unless --pool names one: then it says where to start, and what moving may save.

    Spends nothing. Exits with 3 when the deadline cannot be met, and says which can. Where the journal has
    measured runs of the same name, it says how much work they really were.

    With --server the server makes it, on its own market unless JOB or --market names another.
    """
    if is_remote(given["server"]):
        from slacktide.cli.shared.remote_answers import plan_on_server

        plan_on_server(job, given)
        return
    from slacktide.app.planning.plan import make_plan
    from slacktide.report.text.tables.plan import page
    from slacktide.report.wire.plan import as_json

    task = on_market(plan_request(job, given), given, journal_path(given["journal"]))
    with ProgressBar("planning") as bar:
        made = make_plan(task, progress=bar)
    if given["output"] == "json":
        echo_json(as_json(made))
    else:
        click.echo(page(made))
    warn(made.assumptions)
    _write(made, given)


def _write(made: JobPlan, given: Mapping[str, Any]) -> None:
    """Write the picture and the page of a plan where they are wanted."""
    if given["plot"] is None and given["report"] is None:
        return  # what draws takes half a second to load
    from slacktide.report.figures.plan import plot_plan
    from slacktide.report.pages.plan import write_plan

    for path, write in ((given["plot"], plot_plan), (given["report"], write_plan)):
        if path is not None:
            write(made, Path(path))
            click.echo(f"wrote {path}", err=True)
