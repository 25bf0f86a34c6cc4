"""`slacktide submit`: hand a job to the controller of a journal, from any process."""

from __future__ import annotations

from typing import Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import NO_CONTROLLER, opened, place_options
from slacktide.cli.shared.output import echo_json

NOT_TAKEN_IN = 101


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.policy_option("The policy to run with; default: the controller's choice")
@click.option("--pool", metavar="POOL", help="The pool to run in; default: the cheapest one.")
@common.sight_option
@click.option("--class", "job_class", metavar="CLASS", help="The job's class in the controller's fleet.")
@click.option("--key", metavar="KEY", help="A name for the request: the same key twice is one job.")
@click.option("--no-wait", is_flag=True, help="Print the key of the request and do not wait.")
@place_options
@common.output_option("text", "json")
def submit(job: str, **given: Any) -> int:
    """Submit JOB, a YAML file, to the controller of a journal, and print the job's id.

    The request goes through the journal, so it is answered once, whatever happens to the controller; while
    none is running it waits there for the next one. Exits with 0 when the job was accepted, 2 or 3 when it
    was refused as bad input or infeasible, and 101 when no controller is running.
    """
    from slacktide.app.jobs.requests import check_key
    from slacktide.app.jobs.submission import Submission
    from slacktide.app.markets.market import MarketSpec
    from slacktide.cli.shared.remote_answers import check_affordable
    from slacktide.client.remote import RemoteJournal

    policy, market = common.parse_policy(given["policy"], job), MarketSpec(pool=given["pool"])
    if given["key"] is not None:
        check_key(given["key"])
    submission = Submission.read(
        job,
        policy=policy,
        market=market,
        key=given["key"] or "",
        sight=given["sight"],
        job_class=given["job_class"] or "",
    )
    with opened(given["journal"], given["server"], create=True) as journal:
        if isinstance(journal, RemoteJournal):
            check_affordable(journal, submission, given)
        key = journal.submit(submission, job_class=given["job_class"] or "")
        taken = None if given["no_wait"] else journal.wait(key)
        alone = taken is None and not journal.in_charge
    _print(key, taken, given["output"])
    if alone:
        click.echo(f"{NO_CONTROLLER}; the request waits there: `slacktide controller` picks it up", err=True)
    return 0 if taken or given["no_wait"] else NOT_TAKEN_IN


def _print(key: str, job: str | None, output: str) -> None:
    if output == "json":
        echo_json({"key": key, "job": job})
    else:
        click.echo(job or key)
