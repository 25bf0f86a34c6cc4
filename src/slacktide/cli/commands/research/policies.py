"""`slacktide policies`: the register with one sentence each, and the contract as a command."""

from __future__ import annotations

import click

from slacktide.cli.shared import options as common


@click.command()
@click.option("--check", metavar="NAME|MODULE:CLASS", help="Check a policy against the contract.")
@click.option("--examples", default=60, show_default=True, help="Random cases per check.")
@common.output_option("table", "json")
def policies(check: str | None, examples: int, output: str) -> None:
    """List the policies with their parameters, or check one against the contract."""
    from slacktide.app.setup.registers import check_policy_named, known_policies

    if check is not None:
        (spec,) = common.parse_policies((check,)) or [check]
        check_policy_named(check, spec, examples)
        click.echo(f"{check} keeps the contract ({examples} random cases per check)")
        return
    known = known_policies()
    if output == "json":
        common.echo_json(known)
        return
    for policy in known:
        click.echo(click.style(str(policy["name"]), bold=True))
        click.echo(f"    {policy['summary']}")
        if policy["parameters"]:
            words = ", ".join(f"{key} = {value}" for key, value in policy["parameters"].items())
            click.echo(f"    parameters: {words}")
