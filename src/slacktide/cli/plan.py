"""`slacktide plan`: what a job would cost and when it would be done, before anyone pays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common

if TYPE_CHECKING:
    from slacktide.register import Spec


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.market_options
@click.option("--policy", metavar="NAME", help="The policy to plan with; otherwise the job file's.")
@common.output_option("table", "json")
def plan(job: str, **given: Any) -> None:
    """Say what JOB would cost and when it would be done: over drawn futures and from recent starts.

    Never spends. Exits with 3 when the deadline cannot be met, and says what can.
    """
    from slacktide.report import plan as report
    from slacktide.service import plan as make

    job_file = common.open_job(job)
    policy: Spec = job_file.policy
    if given["policy"]:
        (policy,) = common.parse_policies((given["policy"],))[:1] or (policy,)
    market = common.open_job_market(job_file, given)
    with common.Bar("planning") as bar:
        result = make(job_file.job, market, policy, pool=given["pool"], progress=bar)
    if given["output"] == "json":
        common.echo_json(report.as_json(result))
    else:
        click.echo(report.page(result))
