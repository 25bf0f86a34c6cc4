"""`slacktide cost`: the bill of a job, audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import journal_option, opened

if TYPE_CHECKING:
    from slacktide.ledger import Audit
    from slacktide.results.bill import Bill


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--report", type=click.Path(), metavar="FILE.html", help="Write a page about the run.")
@click.option("--plot", type=click.Path(), metavar="FILE.png", help="Write a picture of the run.")
@journal_option
@common.output_option("table", "json")
def cost(job: str, **given: Any) -> int:
    """Print the bill of JOB beside what others would have paid, and audit it: every stretch priced again.

    Exits with 1 when the audit finds a gap, an overlap, or a cent too much or too little.
    """
    from slacktide.cli.settling import write_pictures
    from slacktide.engine.bill import audit, bill
    from slacktide.engine.lane import lane_of
    from slacktide.running import read_world, track_of

    with opened(given["journal"]) as store:
        track = track_of(read_world(store), job)
        lane = lane_of(track.submitted)
        drawn, checked = bill(track, lane), audit(track, lane, store.read(job=job))
        _print(drawn, checked, given["output"])
        write_pictures(store, track, lane, drawn, given)
    return 0 if checked.clean else 1


def _print(drawn: Bill, checked: Audit, output: str) -> None:
    from slacktide.report import bill as report

    if output == "json":
        common.echo_json({**report.as_json(drawn), "audit": report.audit_json(checked)})
    else:
        click.echo(f"{report.text(drawn)}\n\n{report.audit_text(checked, drawn)}")
