"""`slacktide logs`: what the workers of a job printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import opened, place_options
from slacktide.cli.shared.output import is_terminal

if TYPE_CHECKING:
    from slacktide.app.journal.logs import LogLine


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this worker.")
@click.option(
    "--attempt", type=click.IntRange(min=0), metavar="N", help="Only this set of workers; 0 is the setup."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new output until the job has ended.")
@place_options
@common.output_option("text", "json")
def logs(
    job: str,
    rank: int | None,
    attempt: int | None,
    follow: bool,
    journal: str | None,
    server: str | None,
    output: str,
) -> None:
    """Print the output of JOB's workers, each line with its attempt and rank.

    A long line is split, and its later pieces follow a + instead of a |. On a terminal, control
    characters are removed or shown as escapes; a pipe gets the raw output. JSON is one object per
    line.
    """
    harmless = output == "text" and is_terminal()
    with opened(journal, server) as read:
        for printed in read.logs(job, rank=rank, attempt=attempt, follow=follow):
            line = _json(printed) if output == "json" else _line(printed, harmless)
            click.echo(line, color=True)  # otherwise click would take colours out of what goes into a pipe


def _json(printed: LogLine) -> str:
    fields = printed._asdict()
    if not printed.continued:
        del fields["continued"]
    return json.dumps(fields)


def _line(printed: LogLine, harmless: bool) -> str:
    from slacktide.report.terminal import settled, visible

    name = f"{printed.attempt}/{printed.rank}" if printed.attempt else "setup"
    line = visible(settled(printed.line)) if harmless else printed.line
    return f"{name:<6}{'+' if printed.continued else '|'} {line}"
