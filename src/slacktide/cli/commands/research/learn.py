"""`slacktide learn`: shows which policies `policy: auto` trusts and why, and trains it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.job_requests import learn_request, on_market
from slacktide.cli.shared.journals import is_remote, server_option
from slacktide.cli.shared.output import ProgressBar, confirm_forgetting, echo_json, print_rich
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.planning.learning import Hedge


@click.command()
@click.argument("job", type=click.Path(), metavar="[JOB]", required=False)
@common.market_options
@click.option("--jobs", type=int, default=200, show_default=True, help="Number of jobs to train with.")
@click.option(
    "--pool-of",
    type=click.Choice(["auto", "paper"]),
    help="What to choose from when nothing is learned yet: the few of 'policy: auto', or the paper's 112.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed takes the same starts.")
@click.option(
    "--state", type=click.Path(), metavar="FILE", help="The file with the learned state; default: your own."
)
@common.on_option
@server_option
@click.option("--reset", is_flag=True, help="Forget everything learned first.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before forgetting.")
@common.plot_option("Write a plot")
@common.output_option("table", "json")
def learn(job: str | None, **given: Any) -> None:
    """Show which policies have earned trust, or train the choice on past market data.

    With JOB, a YAML file, that job is started at --jobs random times of the market; after each
    one every policy is tried on the same part of the market, and trust moves to those that did well.
    'policy: auto' then draws by trust. Kept as learn.json in $SLACKTIDE_HOME or ~/.local/state/slacktide.

    With --server it is the server's trust, which its jobs use.
    """
    if is_remote(given["server"]):
        from slacktide.cli.shared.remote_answers import learn_on_server

        learn_on_server(job, given)
        return
    from slacktide.app.planning.learning import learned, learned_path

    if given["on"] is not None and job is None:
        raise InputError("--on must come with a JOB to train with, got none; without one nothing is computed")
    path = learned_path(given["state"])
    if given["reset"]:
        _reset(path, sure=given["yes"])
    hedge = learned(path, given["pool_of"]) if job is None else _teach(path, job, given)
    _print(hedge, path, given["output"])
    if given["plot"] is not None:
        from slacktide.report.figures.learn import plot_learned

        plot_learned(hedge, Path(given["plot"]))
        click.echo(f"wrote {given['plot']}", err=True)


def _reset(path: Path, *, sure: bool) -> None:
    if not path.exists():
        return
    confirm_forgetting(str(path), sure=sure)
    from slacktide.app.planning.learning import forget

    forget(path)
    click.echo(f"forgot {path}", err=True)


def _teach(path: Path, job: str, given: dict[str, Any]) -> Hedge:
    from slacktide.app.planning.learning import teach
    from slacktide.app.planning.spreading import open_spread

    task = on_market(learn_request(job, given), given)
    with open_spread(given["on"]) as spread, ProgressBar("learning") as bar:
        return teach(path, task, progress=bar, spread=spread)


def _print(hedge: Hedge, path: Path, output: str) -> None:
    from slacktide.report.text.tables import learn as report

    if output == "json":
        echo_json(report.as_json(hedge, str(path)))
    else:
        print_rich(*report.page(hedge, str(path)))
