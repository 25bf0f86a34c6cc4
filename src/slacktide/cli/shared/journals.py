"""Opens the journal that a command reads or sends requests to: a file, or the journal of a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared.options import together
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.client.remote import AnyJournal, RemoteJournal

STRENGTH = (
    click.core.ParameterSource.COMMANDLINE,
    click.core.ParameterSource.ENVIRONMENT,
    click.core.ParameterSource.DEFAULT_MAP,
    click.core.ParameterSource.DEFAULT,
)
"""Where an option's value may come from, the strongest source first."""

NO_CONTROLLER = "no controller is running on this journal"


journal_option = click.option(
    "--journal",
    type=click.Path(),
    envvar="SLACKTIDE_JOURNAL",
    metavar="PATH",
    help="The journal; default: $SLACKTIDE_JOURNAL, your settings, or your own.",
)
server_option = click.option(
    "--server",
    envvar="SLACKTIDE_SERVER",
    metavar="URL",
    help="The server of the journal; default: $SLACKTIDE_SERVER, or your settings, which also give the token "
    "unless $SLACKTIDE_TOKEN does.",
)
place_options = together(journal_option, server_option)
"""One of these two names the journal to use."""


def is_remote(server: str | None) -> bool:
    """Whether to use the server instead of the journal file: the option from the stronger source wins.

    If both come from the environment, or both from settings files, the server wins. A command without
    `--journal` uses a server only if the command line names one. Raises InputError if both are on it.
    """
    if not server:
        return False
    context = click.get_current_context()
    if "journal" not in context.params:
        return context.get_parameter_source("server") is click.core.ParameterSource.COMMANDLINE
    by_journal, by_server = (context.get_parameter_source(name) for name in ("journal", "server"))
    if by_journal is by_server is click.core.ParameterSource.COMMANDLINE:
        raise InputError("--journal and --server must not be given together, got both")
    # `<=`: of equally strong sources the server wins.
    return STRENGTH.index(by_server) <= STRENGTH.index(by_journal)


def journal_path(given: str | None) -> Path:
    """Return the path of the journal that was named, or of the user's own."""
    from slacktide.app.journal.journal import own_journal

    return Path(given) if given else own_journal()


def opened(given: str | None, server: str | None = None, *, create: bool = False) -> AnyJournal:
    """Open the journal that was named, or the server; raises InputError if there is none."""
    if is_remote(server):
        return remote(str(server))
    from slacktide.app.journal.journal import open_journal

    return open_journal(given or None, create=create)


def remote(server: str) -> RemoteJournal:
    """Open the journal of a server, with the token from the environment or the settings files."""
    from slacktide.client.remote import open_server

    return open_server(server, token_of(server), lambda line: click.echo(line, err=True))


def token_of(server: str) -> str:
    """Return the token for a server from the environment or the settings files; empty without any."""
    from slacktide.app.settings.settings import Settings, token_for

    context = click.get_current_context()
    settings = context.find_root().obj or Settings(None, None)
    setting = settings.get("server")
    # On the command line or in the environment, the user has chosen the server; a downloaded project's file
    # might name one that collects tokens.
    from_files = context.get_parameter_source("server") is click.core.ParameterSource.DEFAULT_MAP
    project = from_files and setting is not None and setting.table.file.kind == "project"
    return token_for(server, settings, own_choice=not project)


def check_left_to_server(names: Sequence[str]) -> None:
    """Raise InputError if one of these options is on the command line: the server decides them."""
    context = click.get_current_context()
    options = {option.name: option.opts[-1] for option in context.command.params}
    for name in names:
        if is_on_command_line([name]):
            raise InputError(
                f"{options[name]} must be left to the server, got it with a server; leave it out, or name "
                "a journal of your own with --journal"
            )


def is_on_command_line(names: Sequence[str]) -> bool:
    """Whether one of these options is on the command line."""
    source = click.get_current_context().get_parameter_source
    return any(source(name) is click.core.ParameterSource.COMMANDLINE for name in names)


def warn_without_controller(journal: AnyJournal) -> None:
    """Warn on stderr if no controller is running to carry out a request."""
    if not journal.in_charge:
        click.echo(f"{NO_CONTROLLER}; `slacktide controller` or `slacktide run --resume` runs it", err=True)
