"""`slacktide jobs`: every job of a journal and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.cli.journals import NOBODY, journal_option, opened
from slacktide.cli.printing import say

if TYPE_CHECKING:
    from slacktide.app.journal import Journal


@click.command()
@journal_option
@common.output_option("table", "json")
def jobs(journal: str | None, output: str) -> None:
    """List the jobs of a journal, as of its last event.

    A job is `released` when it was stopped cleanly, and `unattended` when its controller died:
    its workers may still run and cost money until a controller is started. One that is `blocked`
    cannot continue; the reason is printed, and it can be cancelled.
    """
    from slacktide.app.listing import UNATTENDED
    from slacktide.report import jobs as report

    with opened(journal) as read:
        listed = read.jobs()
        if output == "json":
            common.echo_json({"jobs": [report.as_json(one) for one in listed]})
        else:
            say(report.text(listed))
        for one in listed:
            if one.blocked:
                say(f"{one.name} is blocked: {one.blocked}", err=True)
        _say_what_waits(read)
        alone = [one.name for one in listed if one.status == UNATTENDED]
    if alone:
        click.echo(f"workers of {', '.join(alone)} may still run without a controller", err=True)


def _say_what_waits(journal: Journal) -> None:
    """Say on stderr which submissions nobody has answered yet, and when nobody is there to go on."""
    waiting = journal.waiting()
    for asked in waiting:
        say(f"waiting to be accepted: {asked.path} (key {asked.key})", err=True)
    if (waiting or journal.unfinished()) and not journal.in_charge:
        click.echo(f"{NOBODY}; `slacktide controller` resumes it", err=True)
