"""`slacktide backends`: where jobs can run, with one sentence each, and the contract as a command."""

from __future__ import annotations

import click

from slacktide.cli import options as common
from slacktide.errors import InputError


@click.command()
@click.option("--check", metavar="NAME", help="Check a back end against the contract.")
@common.output_option("table", "json")
def backends(check: str | None, output: str) -> None:
    """List the back ends, where jobs can run, or check one against the contract."""
    from slacktide.backend.base import backends as register

    if check is not None:
        _check(check)
        return
    known = [{"name": name, "summary": register.summary(name)} for name in register]
    if output == "json":
        common.echo_json(known)
        return
    for one in known:
        click.echo(f"{click.style(one['name'], bold=True)}\n    {one['summary']}")


def _check(name: str) -> None:
    from slacktide.backend.base import backends as register
    from slacktide.checks import CheckFailed, check_backend

    make = register.get(name)
    try:
        check_backend(make)
    except CheckFailed as error:
        raise InputError(f"{name} does not keep the contract: {error}") from error
    click.echo(f"{name} keeps the contract")
