"""`slacktide backends`: lists the back ends, where jobs can run, or checks one against the contract."""

from __future__ import annotations

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json


@click.command()
@click.option("--check", metavar="NAME", help="Check a back end against the contract.")
@common.output_option("table", "json")
def backends(check: str | None, output: str) -> None:
    """List the back ends, where jobs can run, or check one against the contract."""
    from slacktide.app.setup.registers import check_backend_named, known_backends

    if check is not None:
        check_backend_named(check)
        click.echo(f"{check} keeps the contract")
        return
    known = known_backends()
    if output == "json":
        echo_json(known)
        return
    for one in known:
        click.echo(f"{click.style(one['name'], bold=True)}\n    {one['summary']}")
