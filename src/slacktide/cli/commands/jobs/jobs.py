"""`slacktide jobs`: lists the jobs of a journal with their states."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import NO_CONTROLLER, opened, place_options
from slacktide.cli.shared.output import echo_json, is_terminal, line_length, print_rich, say

if TYPE_CHECKING:
    from slacktide.app.journal.listing import JobFilter
    from slacktide.client.remote import AnyJournal

NONE_OF_THEM = "no job of this kind"  # printed if there are jobs, but none that the options select


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="In this state; `active`: not ended. Repeatable.",
)
@click.option("--class", "job_class", metavar="CLASS", help="Of this class of a fleet.")
@click.option("--owner", metavar="NAME", help="Of this owner, as the job file names it.")
@click.option("--since", metavar="TIME", help="Submitted since: 2d, or 2026-01-31.")
@click.option("--late", is_flag=True, help="Late, or expected to be.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The newest N of these.")
@place_options
@common.output_option("table", "json")
def jobs(journal: str | None, server: str | None, output: str, **given: Any) -> None:
    """List the jobs of a journal, as of its last event, with one word for the state of each.

    A running job is `late` or `at-risk` when its deadline is, and otherwise on time. It is
    `released` when it was stopped cleanly, and `unattended` when its controller died: its workers may
    still run and cost money until a controller is started. One that is `blocked` cannot continue; the
    reason is printed, and it can be cancelled.
    """
    from slacktide.app.journal.listing import UNATTENDED
    from slacktide.report.text.tables import jobs as report
    from slacktide.report.text.tables.grid import as_rich

    wanted = _filter(given)
    with opened(journal, server) as read:
        every = read.jobs()
        listed = wanted.kept(every)
        if output == "json":
            echo_json({"jobs": [report.as_json(one) for one in listed]})
        elif is_terminal() and listed:
            print_rich(as_rich(report.table_of(listed), caption=report.note(listed)))
        else:
            say(report.text(listed) if listed or not every else NONE_OF_THEM)
        for one in listed:
            if one.blocked:
                say(_wrapped(f"{one.name} is blocked: {one.blocked}"), err=True)
        _print_waiting(read)
        alone = [one.name for one in listed if one.status == UNATTENDED]
    if alone:
        click.echo(f"workers of {', '.join(alone)} may still run without a controller", err=True)


def _filter(given: Mapping[str, Any]) -> JobFilter:
    """Return the filter that the options of the command describe."""
    from slacktide.app.journal.listing import JobFilter, parse_since

    return JobFilter(
        states=given["states"],
        job_class=given["job_class"],
        owner=given["owner"],
        since=None if given["since"] is None else parse_since(given["since"]),
        late=given["late"],
        most=given["limit"],
    )


def _print_waiting(journal: AnyJournal) -> None:
    """Print on stderr which submissions are not accepted yet, and if no controller is running."""
    waiting = journal.waiting()
    for submission in waiting:
        say(_wrapped(f"waiting to be accepted: {submission.path} (key {submission.key})"), err=True)
    if (waiting or journal.unfinished()) and not journal.in_charge:
        click.echo(f"{NO_CONTROLLER}; `slacktide controller` resumes it", err=True)


def _wrapped(text: str) -> str:
    """Break a long text into the lines of a terminal; in a pipe it stays one line."""
    return textwrap.fill(text, line_length()) if is_terminal(err=True) else text
