"""`slacktide why`: why a job holds what it holds, in plain sentences."""

from __future__ import annotations

import textwrap

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import opened, place_options
from slacktide.cli.shared.output import echo_json, line_length, say

WIDEST = 100  # text is wrapped at this many characters, however wide the terminal is


@click.command()
@click.argument("job", metavar="JOB")
@place_options
@common.output_option("text", "json")
def why(job: str, journal: str | None, server: str | None, output: str) -> None:
    """Explain in plain sentences why JOB holds the GPUs it holds: what decided it, and why."""
    with opened(journal, server) as read:
        sentences = read.why(job)
    if output == "json":
        echo_json({"job": job, "why": sentences})
    else:
        say(textwrap.fill(" ".join(sentences), min(WIDEST, line_length())))
