"""`slacktide cost`: the bill of a job or of a whole journal, audited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import opened, place_options
from slacktide.cli.shared.output import echo_json, say
from slacktide.cli.shared.run_report import Pictures, fetch_pictures, write_pictures
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.report.text.bills.cost_report import CostReport


@click.command()
@click.argument("job", metavar="[JOB]", required=False)
@common.report_option("Write an HTML page about the run of JOB")
@common.plot_option("Write a plot of the run of JOB")
@click.option("--by", metavar="KEYS", help="In parts: by owner, class, month or job; several with commas.")
@place_options
@common.output_option("table", "json", "csv")
def cost(job: str | None, **given: Any) -> int:
    """Print the bill of JOB next to other ways to run it, and audit it: every stretch priced again.

    Without JOB it is the bill of the whole journal, including GPUs used by no job, and the audit of all
    stretches together also checks whether spot was sold twice. Where machines were rented, what they cost
    is shown next to what jobs used of them; `slacktide machines --bill` compares it with their provider's
    account. Exits with 1 when the audit finds a gap, an overlap, a cent too much or too little, or more spot
    held than offered.

    --by divides the bill of a journal; the parts add up to it to the cent. A part of a month is what began
    in it, in UTC, on the clock that jobs run by. CSV is in parts, by job unless --by says otherwise.
    """
    from slacktide.app.journal.journal import Journal
    from slacktide.report.text.bills.cost_report import job_cost_report

    pictures = Pictures(given["report"], given["plot"])
    if job is None and pictures != Pictures():
        raise InputError("--report and --plot must come with a JOB, got none; name the job to draw")
    by = given["by"] or ("job" if given["output"] == "csv" else None)
    if by is not None:
        return _in_parts(job, by, pictures, given)
    with opened(given["journal"], given["server"]) as journal:
        if isinstance(journal, Journal) and job is not None and pictures != Pictures():
            cost = journal.cost(job)
            found = job_cost_report(cost)
            _print(found, given["output"])
            write_pictures(journal, cost.bill, pictures)
        else:
            found = journal.cost_report(job)
            _print(found, given["output"])
            if job is not None and not isinstance(journal, Journal):
                fetch_pictures(journal, job, pictures)
    return 0 if found.clean else 1


def _in_parts(job: str | None, by: str, pictures: Pictures, given: Mapping[str, Any]) -> int:
    """Print the bill of a journal in parts, which add up to the bill that is audited."""
    from slacktide.app.journal.costs import bill_parts, check_sum, parse_keys
    from slacktide.report.text.bills import parts as report

    if job is not None or pictures != Pictures():
        raise InputError("--by and -o csv must be of a whole journal, got a JOB; leave it out")
    keys = parse_keys(by)
    with opened(given["journal"], given["server"]) as journal:
        found, parts = journal.cost_report(), bill_parts(journal.events(), keys)
    total_usd = found.document["total"]["cost_usd"]
    check_sum(parts, total_usd)
    if given["output"] == "csv":
        click.echo(report.as_csv(parts, keys), nl=False)
    elif given["output"] == "json":
        audit = found.document["audit"]
        echo_json({"parts": report.as_json(parts, keys), "total": found.document["total"], "audit": audit})
    else:
        say(report.text(parts, keys, total_usd))
    for note in found.notes:
        say(note, err=True)
    if not found.clean:
        click.echo("the audit found mistakes: see `slacktide cost`", err=True)
    return 0 if found.clean else 1


def _print(found: CostReport, output: str) -> None:
    """Print a bill, and on stderr notes about the markets that it is based on."""
    for note in found.notes:
        say(note, err=True)
    if output == "json":
        echo_json(found.document)
    else:
        say(found.text)
