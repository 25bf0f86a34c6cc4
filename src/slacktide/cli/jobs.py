"""`slacktide jobs`: every job of a journal and where it stands."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.cli.journals import NOBODY, opened, place_options
from slacktide.cli.output import is_terminal, say

if TYPE_CHECKING:
    from slacktide.app.remote import AnyJournal


@click.command()
@place_options
@common.output_option("table", "json")
def jobs(journal: str | None, server: str | None, output: str) -> None:
    """List the jobs of a journal, as of its last event, with one word for where each stands.

    A job that is under way is `late` or `at-risk` where its deadline is, and otherwise in time. It is
    `released` when it was stopped cleanly, and `unattended` when its controller died: its workers may
    still run and cost money until a controller is started. One that is `blocked` cannot continue; the
    reason is printed, and it can be cancelled.
    """
    from slacktide.app.listing import UNATTENDED
    from slacktide.report import jobs as report
    from slacktide.report.grid import as_rich

    with opened(journal, server) as read:
        listed = read.jobs()
        if output == "json":
            common.echo_json({"jobs": [report.as_json(one) for one in listed]})
        elif is_terminal() and listed:
            common.show(as_rich(report.table_of(listed), caption=report.note(listed)))
        else:
            say(report.text(listed))
        for one in listed:
            if one.blocked:
                say(_wrapped(f"{one.name} is blocked: {one.blocked}"), err=True)
        _say_what_waits(read)
        alone = [one.name for one in listed if one.status == UNATTENDED]
    if alone:
        click.echo(f"workers of {', '.join(alone)} may still run without a controller", err=True)


def _say_what_waits(journal: AnyJournal) -> None:
    """Say on stderr which submissions nobody has answered yet, and when nobody is there to go on."""
    waiting = journal.waiting()
    for asked in waiting:
        say(_wrapped(f"waiting to be accepted: {asked.path} (key {asked.key})"), err=True)
    if (waiting or journal.unfinished()) and not journal.in_charge:
        click.echo(f"{NOBODY}; `slacktide controller` resumes it", err=True)


def _wrapped(text: str) -> str:
    """Break a long text into the lines of a terminal; in a pipe it stays one line."""
    return textwrap.fill(text, common.line_length()) if is_terminal(err=True) else text
