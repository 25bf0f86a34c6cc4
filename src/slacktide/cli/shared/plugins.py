"""Commands that other packages bring, as entry points of the group `slacktide.commands`.

A plug-in is a click command. `slacktide --help` imports its module to print its sentence, so that module
imports at its top nothing heavier than click; what a command needs, it imports when it runs.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click

from slacktide.core.errors import InputError

GROUP = "slacktide.commands"
SENTENCE_LENGTH = 100
"""The most characters of a plug-in's sentence that the list of commands shows."""


def plugins() -> dict[str, EntryPoint]:
    """Return the commands of installed packages by their names."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load(entry: EntryPoint) -> click.Command:
    """Import a plug-in; raises InputError if that fails or it is not a command."""
    try:
        command = entry.load()
    except Exception as error:
        raise InputError(f"{_named(entry)} must load, got {type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise InputError(f"{_named(entry)} must be a click command, got {type(command).__name__}")
    return command


def sentence(entry: EntryPoint) -> str:
    """Return the sentence of a plug-in for the list of commands; if it cannot be loaded, the reason."""
    try:
        return load(entry).get_short_help_str(SENTENCE_LENGTH)
    except InputError as error:
        return str(error)


def _named(entry: EntryPoint) -> str:
    return f"the command {entry.name!r} of entry-point group {GROUP!r} ({entry.value})"
