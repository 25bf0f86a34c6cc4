"""`slacktide events`: what happened to a job, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import opened, place_options
from slacktide.cli.shared.output import say

if TYPE_CHECKING:
    from slacktide.app.journal.listing import RecordedEvent
    from slacktide.report.live.lines import EventLines


@click.command()
@click.argument("job", metavar="[JOB]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new events until the job has ended.")
@place_options
@common.output_option("text", "json")
def events(job: str | None, follow: bool, journal: str | None, server: str | None, output: str) -> None:
    """Show what happened to JOB, who did it and why, one line per event; without JOB the whole journal.

    JSON is one object per line.
    """
    from slacktide.report.live.lines import EventLines

    event_lines = EventLines(named=job is None)
    with opened(journal, server) as read:
        for recorded in read.events(job, follow=follow):
            say(_line(recorded, event_lines, output))


def _line(recorded: RecordedEvent, event_lines: EventLines, output: str) -> str:
    from slacktide.report.wire.events import as_json

    if output == "text":
        return event_lines.line(recorded.record.event)
    return json.dumps(as_json(recorded.record, recorded.submitted), allow_nan=False)
