"""`slacktide policies`: the register with one sentence each, and the contract as a command."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.errors import InputError, shown

if TYPE_CHECKING:
    from slacktide.deciding import Policy


@click.command()
@click.option("--check", metavar="NAME|MODULE:CLASS", help="Check that a policy keeps the contract.")
@click.option("--examples", default=60, show_default=True, help="Random cases per check.")
@common.output_option("table", "json")
def policies(check: str | None, examples: int, output: str) -> None:
    """List the known policies with their parameters, or check that one keeps the contract."""
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

    policy = _load(name) if ":" in name else register.make(name)
    try:
        check_policy(policy, examples=examples)
    except CheckFailed as error:
        raise InputError(f"{name} does not keep the contract: {error}") from error
    click.echo(f"{name} keeps the contract ({examples} random cases per check)")


def _load(place: str) -> Policy:
    module, _, attribute = place.partition(":")
    sys.path.insert(0, os.getcwd())  # a policy in the user's own folder is meant to be found
    try:
        policy: Policy = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise InputError(
            f"--check must name a class as module:Class that needs no arguments, got {shown(place)}: {error}"
        ) from error
    return policy
