"""`slacktide alerts`: tests the hooks of an alerts file, and shows what they have sent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import opened, place_options
from slacktide.cli.shared.output import echo_json, say
from slacktide.core.errors import BackendError


@click.group()
def alerts() -> None:
    """Try the hooks of an alerts file, or show what they were sent and what is waiting."""


@alerts.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--hook", metavar="NAME", help="Only this hook; default: all of the file.")
@common.output_option("table", "json")
def test(file: Path, hook: str | None, output: str) -> int:
    """Send a sample to the hooks of FILE and say what came back.

    Each hook is tried once, whatever it is for. Exits with 4 if one of them did not accept the sample.
    """
    from slacktide.app.alerts.file import read_alerts_file
    from slacktide.app.alerts.sending import try_hooks

    read = read_alerts_file(file)
    for note in read.notes:
        say(note, err=True)
    trials = try_hooks(read, hook)
    if output == "json":
        echo_json({"hooks": [asdict(one) for one in trials]})
    else:
        for one in trials:
            say(f"{one.hook:<24} {'accepted' if one.accepted else 'failed':<9} {one.target}: {one.said}")
    return 0 if all(one.accepted for one in trials) else BackendError.exit_code


@alerts.command()
@place_options
@common.output_option("table", "json")
def show(journal: str | None, server: str | None, output: str) -> None:
    """Show what the hooks of a journal were sent, what is waiting, and the last error.

    A server leaves the addresses out of error messages.
    """
    with opened(journal, server) as place:
        found = place.hooks()
    if output == "json":
        echo_json({"hooks": [asdict(one) for one in found]})
        return
    if not found:
        say("no hooks yet: `slacktide serve --alerts FILE` or `slacktide controller --alerts FILE`", err=True)
    for one in found:
        counts = f"{one.sent} sent, {one.waiting} waiting, {one.dropped} dropped"
        trouble = f"; last error at {one.error_utc}: {one.error}" if one.error else ""
        say(f"{one.name:<24} {counts}{trouble}")
