"""`slacktide policies`: lists the policies with one sentence each, or checks one against the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json


@click.command()
@click.option("--check", metavar="NAME|MODULE:CLASS", help="Check a policy against the contract.")
@click.option("--examples", default=60, show_default=True, help="Random cases per check.")
@common.output_option("table", "json")
def policies(check: str | None, examples: int, output: str) -> None:
    """List the policies with their parameters, or check one against the contract.

    Those that are worth choosing among come first, those of the papers' experiments last. A job file
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
            _print_policy(policy)


def _print_policy(policy: Mapping[str, Any]) -> None:
    click.echo(f"  {click.style(str(policy['name']), bold=True)}\n      {policy['summary']}")
    if policy["parameters"]:
        words = ", ".join(f"{key} = {value}" for key, value in policy["parameters"].items())
        click.echo(f"      parameters: {words}")
