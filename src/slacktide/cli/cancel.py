"""`slacktide cancel`: end a job."""

from __future__ import annotations

import click

from slacktide.cli.journals import journal_option, opened, say_who_acts


@click.command()
@click.argument("job", metavar="JOB")
@journal_option
def cancel(job: str, journal: str | None) -> None:
    """End JOB: its workers may checkpoint, then all its GPUs are let go.

    JOB may also be the key of a submission that no controller has taken in yet, which is withdrawn.
    """
    with opened(journal) as asked:
        if asked.cancel(job):
            click.echo(f"withdrew the submission {job}")
            return
        click.echo(f"asked that {job} be cancelled")
        say_who_acts(asked)
