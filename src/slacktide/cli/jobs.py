"""`slacktide jobs`: every job of a journal and where it stands."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.cli import printing
from slacktide.cli.journals import NOBODY, journal_option, opened
from slacktide.cli.printing import say

if TYPE_CHECKING:
    from slacktide.app.journal import Journal


@click.command()
@journal_option
@common.output_option("table", "json")
def jobs(journal: str | None, output: str) -> None:
    """List the jobs of a journal, as of its last event, with one word for where each stands.

    A job that is under way is `late` or `at-risk` where its deadline is, and otherwise in time. It is
    `released` when it was let go in order, and `unattended` when its controller is gone without a
    word: its workers may still run and cost money until a controller takes charge. One that is `blocked`
    cannot go on, for a reason that is printed; it can be cancelled.
    """
    from slacktide.app.listing import UNATTENDED
    from slacktide.report import jobs as report
    from slacktide.report.grid import as_rich

    with opened(journal) as read:
        listed = read.jobs()
        if output == "json":
            common.echo_json({"jobs": [report.as_json(one) for one in listed]})
        elif printing.is_terminal() and listed:
            common.show(as_rich(report.table_of(listed), caption=report.note(listed)))
        else:
            say(report.text(listed))
        for one in listed:
            if one.blocked:
                say(_wrapped(f"{one.name} is blocked: {one.blocked}"), err=True)
        _say_what_waits(read)
        alone = [one.name for one in listed if one.status == UNATTENDED]
    if alone:
        click.echo(f"workers of {', '.join(alone)} may still run, and nobody watches them", err=True)


def _say_what_waits(journal: Journal) -> None:
    """Say on stderr which submissions nobody has answered yet, and when nobody is there to go on."""
    waiting = journal.waiting()
    for asked in waiting:
        say(_wrapped(f"waits to be taken in: {asked.path} (key {asked.key})"), err=True)
    if (waiting or journal.unfinished()) and not journal.in_charge:
        click.echo(f"{NOBODY}; `slacktide controller` goes on with it", err=True)


def _wrapped(text: str) -> str:
    """Break a long text into the lines of a terminal; in a pipe it stays one line."""
    return textwrap.fill(text, common.line_length()) if printing.is_terminal(err=True) else text
