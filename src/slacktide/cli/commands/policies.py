"""Commands about policies: `policies` lists and checks them, `learn` shows and trains the trust in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import check_left_to_server, is_remote, remote, server_option
from slacktide.cli.shared.output import (
    ProgressBar,
    confirm_forgetting,
    echo_json,
    print_rich,
    write_files,
)
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.planning.learning import Hedge
    from slacktide.app.task_requests import LearnRequest


@click.command()
@click.option("--check", metavar="NAME|MODULE:CLASS", help="Check a policy against the contract.")
@click.option("--examples", default=60, help="Random cases per check.")
@common.output_option("table", "json")
def policies(check: str | None, examples: int, output: str) -> None:
    """List the policies with their parameters, or check one against the contract.

    Those that are worth choosing from come first, those for the papers' experiments last. A job file
    without `policy` uses `auto`, which learns from your runs which policy does best.
    """
    from slacktide.app.setup.registers import check_policy_named, known_policies

    if check is not None:
        (spec,) = common.parse_policies((check,)) or [check]
        check_policy_named(check, spec, examples)
        click.echo(f"{check} keeps the contract ({examples} random cases per check)")
        return
    groups = known_policies()
    if output == "json":
        echo_json([policy for group in groups.values() for policy in group])
        return
    for place, (title, group) in enumerate(groups.items()):
        click.echo(f"{'' if place == 0 else chr(10)}{title}:")
        for policy in group:
            click.echo(f"  {click.style(str(policy['name']), bold=True)}\n      {policy['summary']}")
            if policy["parameters"]:
                words = ", ".join(f"{key} = {value}" for key, value in policy["parameters"].items())
                click.echo(f"      parameters: {words}")


@click.command()
@click.argument("job", type=click.Path(), metavar="[JOB]", required=False)
@common.market_options
@click.option("--jobs", type=int, default=200, help="Number of jobs to train with.")
@click.option(
    "--pool-of",
    type=click.Choice(["auto", "paper"]),
    help="What to choose from when nothing is learned yet: the few of 'policy: auto', or the paper's 112.",
)
@click.option("--seed", type=int, default=0, help="The same seed takes the same starts.")
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
    request = None if job is None else common.learn_request(job, given)
    if is_remote(given["server"]):
        from slacktide.cli.shared.remote_answers import answer_on_server

        check_left_to_server(("on", "state"))
        if given["reset"]:
            confirm_forgetting(given["server"], sure=given["yes"])
            remote(given["server"]).forget()
            click.echo(f"forgot what {given['server']} had learned", err=True)
        answer_on_server(request, given, title="learning")
        return
    from slacktide.app.planning.learning import forget, learned, learned_path
    from slacktide.report.figures.learn import plot_learned
    from slacktide.report.text.tables import learn as report

    if given["on"] is not None and request is None:
        raise InputError("--on must come with a JOB to train with, got none; without one nothing is computed")
    path = learned_path(given["state"])
    if given["reset"] and path.exists():
        confirm_forgetting(str(path), sure=given["yes"])
        forget(path)
        click.echo(f"forgot {path}", err=True)
    hedge = learned(path, given["pool_of"]) if request is None else _teach(path, request, given)
    if given["output"] == "json":
        echo_json(report.as_json(hedge, str(path)))
    else:
        print_rich(*report.page(hedge, str(path)))
    write_files(given, plot=lambda path: plot_learned(hedge, path))


def _teach(path: Path, request: LearnRequest, given: dict[str, Any]) -> Hedge:
    from slacktide.app.planning.learning import teach
    from slacktide.app.planning.spreading import open_spread
    from slacktide.app.task_requests import local_task

    task = local_task(request, common.market_spec(given))
    with open_spread(given["on"]) as spread, ProgressBar("learning") as bar:
        return teach(path, task, progress=bar, spread=spread)
