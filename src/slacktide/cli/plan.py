"""`slacktide plan`: what a job would cost and when it would be done, before anyone pays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import journal_option, journal_path

if TYPE_CHECKING:
    from slacktide.results.plan import JobPlan


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.market_options
@common.policy_option("The policy to plan with; default: the job file's")
@click.option("--start", type=int, metavar="SLOT", help="The market slot to start in; default: as in a run.")
@journal_option
@common.plot_option("Write a plot")
@common.report_option("Write an HTML page with the plot")
@common.output_option("table", "json")
def plan(job: str, **given: Any) -> None:
    """Estimate what JOB would cost and when it would finish, from simulated futures and recent starts.

    Spends nothing. Exits with 3 when the deadline cannot be met, and says which can. Where the journal has
    measured runs of the same name, it says how much work they really were.
    """
    from slacktide.app.plan import PlanRequest, make_plan
    from slacktide.report import plan as report

    policy = common.parse_policy(given["policy"], job)
    journal = journal_path(given["journal"])
    request = PlanRequest(path=job, market=common.market_spec(given), policy=policy, journal=journal)
    with common.Bar("planning") as bar:
        result = make_plan(request, progress=bar)
    if given["output"] == "json":
        common.echo_json(report.as_json(result))
    else:
        click.echo(report.page(result))
    _write(result, given["plot"], given["report"])


def _write(result: JobPlan, plot: str | None, page: str | None) -> None:
    if plot is not None:
        from slacktide.report.figures.plan import plot_plan

        plot_plan(result, Path(plot))
        click.echo(f"wrote {plot}", err=True)
    if page is not None:
        from slacktide.report.pages.plan import write_plan

        write_plan(result, Path(page))
        click.echo(f"wrote {page}", err=True)
