"""`slacktide providers`: lists the providers of machines, or checks one against the contract."""

from __future__ import annotations

from pathlib import Path

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json
from slacktide.core.errors import InputError


@click.command()
@click.option(
    "--check", type=click.Path(), metavar="FILE",
    help="Check the provider of a machines file against the contract; rents machines for a short time.",
)  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not ask before renting machines to check with.")
@common.output_option("table", "json")
def providers(check: str | None, yes: bool, output: str) -> None:
    """List the providers of machines with their settings, or check one against the contract.

    A check rents up to two machines at a time, of the cheapest kind in the file, and ends them.
    """
    if check is not None:
        _check(check, yes=yes)
        return
    from slacktide.app.setup.registers import known_providers

    known = known_providers()
    if output == "json":
        echo_json(known)
        return
    for one in known:
        click.echo(f"{click.style(str(one['name']), bold=True)}\n    {one['summary']}")
        click.echo(f"    settings: {', '.join(one['parameters'])}")


def _check(file: str, *, yes: bool) -> None:
    from slacktide.app.machines import cheapest
    from slacktide.app.setup.registers import check_provider_of
    from slacktide.cli.shared.output import is_interactive

    read, spec, price = cheapest(Path(file))
    if not yes:
        if not is_interactive():
            raise InputError("renting machines must be confirmed, got no terminal to ask on; add -y")
        if not click.confirm(f"Rent {spec.kind} machines of {spec.pool} for ${price:.2f} an hour each?"):
            return
    check_provider_of(file, read.provider_for, spec)
    click.echo(f"the provider of {file} keeps the contract")
