"""`slacktide token`: manages the tokens that give access to the server of a journal."""

from __future__ import annotations

from datetime import timedelta

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import journal_option, journal_path
from slacktide.cli.shared.output import echo_json


@click.group()
def token() -> None:
    """Create, list and revoke the tokens of a journal's server."""


@token.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--role", type=click.Choice(["read", "submit"]), default="read", show_default=True,
    help="read: see jobs, logs and bills; submit: also run programs on the workers.",
)  # fmt: skip
@click.option("--expires", type=common.Duration(), metavar="TIME", help="Valid for this long, e.g. 90d.")
@journal_option
def add(name: str, role: str, expires: float | None, journal: str | None) -> None:
    """Create a token called NAME and print it once; clients pass it in SLACKTIDE_TOKEN."""
    from slacktide.app.tokens import tokens_of

    lasting = None if expires is None else timedelta(hours=expires)
    click.echo(tokens_of(journal_path(journal)).add(name, role, lasting))


@token.command(name="list")
@journal_option
@common.output_option("table", "json")
def list_(journal: str | None, output: str) -> None:
    """List the tokens with their roles; their secrets are not stored."""
    from slacktide.app.tokens import tokens_of

    found = tokens_of(journal_path(journal)).all()
    if output == "json":
        keys = ("name", "role", "made_utc", "expires_utc")
        echo_json({"tokens": [{key: getattr(one, key) for key in keys} for one in found]})
        return
    for one in found:
        until = (
            "expired" if one.is_over() else f"until {one.expires_utc[:16]}" if one.expires_utc else "no end"
        )
        click.echo(f"{one.name:<24} {one.role:<7} {until}")


@token.command()
@click.argument("name", metavar="NAME")
@journal_option
def revoke(name: str, journal: str | None) -> None:
    """Revoke the token called NAME and all its sessions, at once."""
    from slacktide.app.tokens import tokens_of

    tokens_of(journal_path(journal)).revoke(name)
    click.echo(f"revoked {name}")
