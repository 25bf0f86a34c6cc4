"""`slacktide logs`: what the workers of a job printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.cli.journals import journal_option, opened

if TYPE_CHECKING:
    from slacktide.app.logs import LogLine


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--rank", type=int, metavar="N", help="Only this worker.")
@click.option("--attempt", type=int, metavar="N", help="Only this set of workers; 0 is the set-up.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more is printed, until the job has ended.")
@journal_option
@common.output_option("text", "json")
def logs(
    job: str, rank: int | None, attempt: int | None, follow: bool, journal: str | None, output: str
) -> None:
    """Print what the workers of JOB printed, each line after its attempt and rank.

    JSON is an object per line.
    """
    with opened(journal) as read:
        for printed in read.logs(job, rank=rank, attempt=attempt, follow=follow):
            click.echo(_line(printed, output))


def _line(printed: LogLine, output: str) -> str:
    if output == "json":
        return json.dumps(printed._asdict())
    name = f"{printed.attempt}/{printed.rank}" if printed.attempt else "setup"
    return f"{name:<6}| {printed.line}"
