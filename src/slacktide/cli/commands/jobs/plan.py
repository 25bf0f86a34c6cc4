"""`slacktide plan`: estimates what a job would cost and when it would finish, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import is_remote, journal_path, place_options
from slacktide.cli.shared.output import ProgressBar, echo_json


class Assuming(Protocol):
    """A plan of any kind, with its assumptions."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it assumes, in sentences."""
        ...


Plan = TypeVar("Plan", bound=Assuming)
WARNING = "WARNING: "
"""The beginning of a sentence that must not be overlooked."""


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
    from slacktide.app.planning.plan import PlanRequest, make_plan
    from slacktide.app.planning.pools_plan import make_pools_plan

    policy = common.parse_policy(given["policy"], job)
    journal = journal_path(given["journal"])
    request = PlanRequest(path=job, market=common.market_spec(given), policy=policy, journal=journal)
    with ProgressBar("planning") as bar:
        moving = make_pools_plan(request, progress=bar)
        staying = make_plan(request, progress=bar) if moving is None else None
    if moving is not None:
        from slacktide.report.figures.pools_plan import plot_pools_plan
        from slacktide.report.pages.pools_plan import write_pools_plan
        from slacktide.report.text.tables import pools_plan

        _print_and_write(
            moving, pools_plan.as_json, pools_plan.page, plot_pools_plan, write_pools_plan, given
        )
    elif staying is not None:
        from slacktide.report.figures.plan import plot_plan
        from slacktide.report.pages.plan import write_plan
        from slacktide.report.text.tables import plan as report

        _print_and_write(staying, report.as_json, report.page, plot_plan, write_plan, given)


def warn(assumptions: Sequence[str]) -> None:
    """Print the warnings among a plan's assumptions on stderr."""
    for sentence in assumptions:
        if sentence.startswith(WARNING):
            click.echo(sentence, err=True)


def _print_and_write(
    result: Plan,
    as_json: Callable[[Plan], dict[str, Any]],
    page: Callable[[Plan], str],
    draw: Callable[[Plan, Path], object],
    write: Callable[[Plan, Path], object],
    given: Mapping[str, Any],
) -> None:
    """Print a plan, and write its picture and page if they are requested."""
    if given["output"] == "json":
        echo_json(as_json(result))
    else:
        click.echo(page(result))
    warn(result.assumptions)
    for path, make in ((given["plot"], draw), (given["report"], write)):
        if path is not None:
            make(result, Path(path))
            click.echo(f"wrote {path}", err=True)
