"""`slacktide cost`: the bill of a job or of a whole journal, audited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import journal_option, opened
from slacktide.cli.output import say
from slacktide.cli.run_report import Pictures, write_pictures
from slacktide.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.journal import Journal
    from slacktide.ledger import Audit
    from slacktide.results.bill import Bill


@click.command()
@click.argument("job", metavar="[JOB]", required=False)
@common.report_option("Write an HTML page about the run of JOB")
@common.plot_option("Write a plot of the run of JOB")
@journal_option
@common.output_option("table", "json")
def cost(job: str | None, **given: Any) -> int:
    """Print the bill of JOB next to other ways to run it, and audit it: every stretch priced again.

    Without JOB it is the bill of the whole journal, including GPUs used by no job, and the audit of all
    stretches together also checks whether spot was sold twice. Where machines were rented, what they cost
    is shown next to what jobs used of them; `slacktide machines --bill` compares it with their provider's
    account. Exits with 1 when the audit finds a gap, an overlap, a cent too much or too little, or more spot
    held than offered.
    """
    pictures = Pictures(given["report"], given["plot"])
    if job is None and pictures != Pictures():
        raise InputError("--report and --plot must come with a JOB, got none; name the job to draw")
    with opened(given["journal"]) as journal:
        if job is None:
            return _all(journal, given["output"])
        drawn, checked, notes = journal.cost(job)
        _print(drawn, checked, given["output"])
        _say(notes)
        write_pictures(journal, drawn, pictures)
    return 0 if checked.clean else 1


def _all(journal: Journal, output: str) -> int:
    from slacktide.report import machine_bill as machines
    from slacktide.report import site_bill as report

    found, notes, rented = journal.cost_of_all()
    _say(notes)
    if output == "json":
        told = None if rented is None else machines.as_json(rented)
        common.echo_json({**report.as_json(found), "machines": told})
    else:
        say(report.text(found))
        if rented is not None:
            say(f"\n{machines.text(rented, found.total.cost_usd)}")
    return 0 if found.audit.clean else 1


def _print(drawn: Bill, checked: Audit, output: str) -> None:
    from slacktide.report import bill as report

    if output == "json":
        common.echo_json({**report.as_json(drawn), "audit": report.audit_json(checked)})
    else:
        say(f"{report.text(drawn)}\n\n{report.audit_text(checked, drawn.cost_usd)}")


def _say(notes: Sequence[str]) -> None:
    """Say on stderr what must be known of the markets that bills and audits rest on."""
    for note in notes:
        say(note, err=True)
