"""`slacktide why`: why a job holds what it holds, in plain sentences."""

from __future__ import annotations

import textwrap

import click

from slacktide.cli import options as common
from slacktide.cli.journals import journal_option, opened
from slacktide.cli.output import say

WIDEST = 100
"""Text is wrapped at this many characters, however wide the terminal is."""


@click.command()
@click.argument("job", metavar="JOB")
@journal_option
@common.output_option("text", "json")
def why(job: str, journal: str | None, output: str) -> None:
    """Explain in plain sentences why JOB holds the GPUs it holds: what decided, and on what grounds."""
    from slacktide.report.why import why as explain

    with opened(journal) as read:
        events = [told.record.event for told in read.events(job)]
        (status,) = (one for one in read.jobs() if one.name == job)
    sentences = explain(status, events)
    if output == "json":
        common.echo_json({"job": job, "why": sentences})
    else:
        say(textwrap.fill(" ".join(sentences), min(WIDEST, common.line_length())))
