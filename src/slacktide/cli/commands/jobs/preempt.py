"""`slacktide preempt`: take spot workers from a job as the market would, to see what happens."""

from __future__ import annotations

import click

from slacktide.cli.shared.journals import opened, place_options, warn_without_controller


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="How many; default: all.")
@place_options
def preempt(job: str, gpus: int | None, journal: str | None, server: str | None) -> None:
    """Take spot workers from JOB, as the market would, to test a preemption."""
    with opened(journal, server) as opened_journal:
        opened_journal.preempt(job, gpus)
        click.echo(f"requested to preempt {gpus or 'all'} spot GPUs of {job}")
        warn_without_controller(opened_journal)
