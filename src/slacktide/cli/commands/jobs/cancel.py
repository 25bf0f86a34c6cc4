"""`slacktide cancel`: end a job."""

from __future__ import annotations

import click

from slacktide.cli.shared.journals import opened, place_options, warn_without_controller


@click.command()
@click.argument("job", metavar="JOB")
@place_options
def cancel(job: str, journal: str | None, server: str | None) -> None:
    """Cancel JOB: its workers may checkpoint, then all its GPUs are released.

    JOB may also be the key of a submission that no controller has accepted yet; it is withdrawn.
    """
    with opened(journal, server) as opened_journal:
        if opened_journal.cancel(job):
            click.echo(f"withdrew the submission {job}")
            return
        click.echo(f"requested to cancel {job}")
        warn_without_controller(opened_journal)
