"""The journal that a command reads or asks something of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from slacktide.app.journal import Journal

Command = TypeVar("Command", bound=Callable[..., Any])

NOBODY = "no controller is running on this journal"


def journal_option(command: Command) -> Command:
    """Add `--journal`, which says which journal is meant."""
    return click.option(
        "--journal",
        type=click.Path(),
        envvar="SLACKTIDE_JOURNAL",
        metavar="PATH",
        help="The journal; default: $SLACKTIDE_JOURNAL, or your own.",
    )(command)


def journal_path(given: str | None) -> Path:
    """Return the journal that was named, or the user's own."""
    from slacktide.app.journal import own_journal

    return Path(given) if given else own_journal()


def opened(given: str | None) -> Journal:
    """Open the journal that was named; raises InputError when there is none."""
    from slacktide.app.journal import open_journal

    return open_journal(given or None)


def say_who_acts(journal: Journal) -> None:
    """Say on stderr when nobody is there to do what was asked of a journal."""
    if not journal.in_charge:
        click.echo(f"{NOBODY}; `slacktide controller` or `slacktide run --resume` runs it", err=True)
