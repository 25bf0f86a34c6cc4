"""`slacktide cost`: the bill of a job or of a whole journal, audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import opened, place_options
from slacktide.cli.output import say
from slacktide.cli.run_report import Pictures, write_pictures
from slacktide.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.cost_report import CostTold


@click.command()
@click.argument("job", metavar="[JOB]", required=False)
@common.report_option("Write an HTML page about the run of JOB")
@common.plot_option("Write a plot of the run of JOB")
@place_options
@common.output_option("table", "json")
def cost(job: str | None, **given: Any) -> int:
    """Print the bill of JOB next to other ways to run it, and audit it: every stretch priced again.

    Without JOB it is the bill of the whole journal, including GPUs used by no job, and the audit of all
    stretches together also checks whether spot was sold twice. Where machines were rented, what they cost
    is shown next to what jobs used of them; `slacktide machines --bill` compares it with their provider's
    account. Exits with 1 when the audit finds a gap, an overlap, a cent too much or too little, or more spot
    held than offered.
    """
    from slacktide.app.cost_report import job_cost_told
    from slacktide.app.journal import Journal

    pictures = Pictures(given["report"], given["plot"])
    if job is None and pictures != Pictures():
        raise InputError("--report and --plot must come with a JOB, got none; name the job to draw")
    with opened(given["journal"], given["server"]) as journal:
        if isinstance(journal, Journal) and job is not None and pictures != Pictures():
            cost = journal.cost(job)
            told = job_cost_told(cost)
            _print(told, given["output"])
            write_pictures(journal, cost.bill, pictures)
        else:
            _check_drawn_here(pictures)
            told = journal.cost_told(job)
            _print(told, given["output"])
    return 0 if told.clean else 1


def _check_drawn_here(pictures: Pictures) -> None:
    if pictures != Pictures():
        raise InputError("--report and --plot must be made where the journal is, got --server")


def _print(told: CostTold, output: str) -> None:
    """Print a bill, and on stderr what must be known of the markets that it rests on."""
    for note in told.notes:
        say(note, err=True)
    if output == "json":
        common.echo_json(told.document)
    else:
        say(told.text)
