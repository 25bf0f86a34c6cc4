"""`slacktide plan`: what a job would cost and when it would be done, before anyone pays."""

from __future__ import annotations

from typing import Any

import click

from slacktide.cli import options as common


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.market_options
@common.policy_option("The policy to plan with; otherwise the job file's")
@common.output_option("table", "json")
def plan(job: str, **given: Any) -> None:
    """Say what JOB would cost and when it would be done: over drawn futures and from recent starts.

    Never spends. Exits with 3 when the deadline cannot be met, and says what can.
    """
    from slacktide.app.plan import PlanRequest, make_plan
    from slacktide.report import plan as report

    policy = common.parse_policy(given["policy"], job)
    request = PlanRequest(path=job, market=common.market_spec(given), policy=policy)
    with common.Bar("planning") as bar:
        result = make_plan(request, progress=bar)
    if given["output"] == "json":
        common.echo_json(report.as_json(result))
    else:
        click.echo(report.page(result))
