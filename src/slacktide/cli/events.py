"""`slacktide events`: what happened to a job, and why."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.cli.journals import FOLLOW_S, journal_option, opened

if TYPE_CHECKING:
    from slacktide.engine.world import World
    from slacktide.events import Record
    from slacktide.report.live.lines import Teller


@click.command()
@click.argument("job", metavar="[JOB]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as more happens, until the job has ended.")
@journal_option
@common.output_option("text", "json")
def events(job: str | None, follow: bool, journal: str | None, output: str) -> None:
    """Tell what happened to JOB, who did it and why, a line per event; without JOB all of the journal.

    JSON is an object per line.
    """
    from slacktide.engine.world import World
    from slacktide.report.live.lines import Teller
    from slacktide.running import read_world, track_of

    with opened(journal) as store:
        if job is not None:
            track_of(read_world(store), job)
        world, teller = World(), Teller(named=job is None)
        while True:
            for record in store.read(after=world.seq, job=job):
                world.apply(record)
                _tell(record, world, teller, output)
            if not follow or (job is not None and not world.jobs[job].active):
                return
            time.sleep(FOLLOW_S)


def _tell(record: Record, world: World, teller: Teller, output: str) -> None:
    from slacktide.report.wire.events import as_json

    if output == "text":
        click.echo(teller.line(record.event))
        return
    track = world.jobs.get(record.event.job)
    submitted = None if track is None else track.submitted
    click.echo(json.dumps(as_json(record, submitted), allow_nan=False))
