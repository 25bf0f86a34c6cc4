"""`slacktide policies`: the register with one sentence each, and the contract as a command."""

from __future__ import annotations

import click

from slacktide.cli import options as common
from slacktide.errors import InputError


@click.command()
@click.option("--check", metavar="NAME|MODULE:CLASS", help="Check a policy against the contract.")
@click.option("--examples", default=60, show_default=True, help="Random cases per check.")
@common.output_option("table", "json")
def policies(check: str | None, examples: int, output: str) -> None:
    """List the policies with their parameters, or check one against the contract."""
    if check is not None:
        _check(check, examples)
        return
    from slacktide.policy.base import policies as register

    known = [
        {"name": name, "summary": register.summary(name), "parameters": register.parameters(name)}
        for name in register
    ]
    if output == "json":
        common.echo_json(known)
        return
    for policy in known:
        click.echo(click.style(str(policy["name"]), bold=True))
        click.echo(f"    {policy['summary']}")
        if policy["parameters"]:
            words = ", ".join(
                f"{key} = {value}" for key, value in register.parameters(str(policy["name"])).items()
            )
            click.echo(f"    parameters: {words}")


def _check(name: str, examples: int) -> None:
    from slacktide.checks import CheckFailed, check_policy
    from slacktide.policy.base import policies as register

    (spec,) = common.parse_policies((name,)) or [name]
    try:
        check_policy(register.make(spec), examples=examples)
    except CheckFailed as error:
        raise InputError(f"{name} does not keep the contract: {error}") from error
    click.echo(f"{name} keeps the contract ({examples} random cases per check)")
