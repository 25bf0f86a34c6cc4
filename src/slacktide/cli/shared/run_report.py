"""What a run prints and writes at its end: bills, an HTML page and a picture; and its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from slacktide.cli.shared.output import echo_json, say, waiting, write_files
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.journal.journal import Journal
    from slacktide.client.remote import RemoteJournal
    from slacktide.results.bill import Bill

FAILED, NOT_FINISHED, CANCELLED = 100, 101, 103
CODES = {"succeeded": 0, "failed": FAILED, "deadline_missed": FAILED, "cancelled": CANCELLED}
"""Exit codes by the final state of a job; in any other state the job did not finish."""


def write_pictures(journal: Journal, bill: Bill, given: Mapping[str, Any]) -> None:
    """Write the page and the picture of a run, if the options `report` and `plot` request them."""
    if given["report"] is None and given["plot"] is None:
        return
    from slacktide.core.files import write_whole
    from slacktide.report.figures.run import plot_run
    from slacktide.report.pages.run import page

    try:
        recorded = journal.run(bill.job)
    except InputError as error:
        click.echo(f"no plot: {error}", err=True)
        return
    write_files(
        given,
        plot=lambda path: plot_run(recorded.runs, path),
        report=lambda path: write_whole(path, page(recorded.runs, bill, recorded.events).encode()),
    )


def fetch_pictures(journal: RemoteJournal, job: str, given: Mapping[str, Any]) -> None:
    """Do the same for a job on a server: fetch the page and the picture, and write them here."""
    from slacktide.client.http import ServerError

    def fetch_plot(path: str) -> None:
        content = journal.picture(job, Path(path).suffix.removeprefix(".").lower())
        Path(path).write_bytes(content)

    try:
        write_files(given, plot=fetch_plot, report=lambda path: Path(path).write_bytes(journal.page(job)))
    except ServerError as error:
        if error.exit_code != InputError.exit_code:
            raise
        click.echo(f"no plot: {error}", err=True)


def exit_code(statuses: Sequence[str]) -> int:
    """Return the exit code of a run whose jobs have these states: that of the worst one."""
    codes = {CODES.get(status, NOT_FINISHED) for status in statuses}
    return next((code for code in (FAILED, NOT_FINISHED, CANCELLED) if code in codes), 0)


def _of_job(given: Mapping[str, Any], job: str) -> dict[str, str | None]:
    """Return the paths of the options `report` and `plot` with the job's id added to the file names."""
    paths = {name: Path(given[name]) for name in ("report", "plot") if given[name]}
    named = {name: str(path.with_stem(f"{path.stem}-{job}")) for name, path in paths.items()}
    return {"report": None, "plot": None, **named}


def settle(
    journal: Journal | RemoteJournal,
    jobs: Sequence[str],
    given: Mapping[str, Any],
    *,
    stuck: Mapping[str, str] | None = None,
    later: str = "`slacktide run --resume` continues",
) -> int:
    """Print the bills, write the files that `report` and `plot` request, and return the exit code.

    `stuck` are blocked jobs, which have no bill yet, with the reason; `later` says how the others continue.
    """
    from slacktide.app.journal.journal import Journal
    from slacktide.cli.shared.interruptions import until_pipe_closes
    from slacktide.journal.events import Status
    from slacktide.report.text.bills import job as report

    stuck = stuck or {}
    with waiting("computing what other ways would have cost"):
        bills = [journal.bill(job) for job in jobs if job not in stuck]
    for job in filter(stuck.__contains__, jobs):
        say(f"{job} has no bill yet, because it is blocked: {stuck[job]}", err=True)
    with until_pipe_closes():
        if given["output"] == "json":
            echo_json({"jobs": [report.as_json(bill) for bill in bills]})
        else:
            say("\n\n".join(report.text(bill) for bill in bills))
    for bill in bills:
        files = _of_job(given, bill.job) if len(bills) > 1 else given
        if isinstance(journal, Journal):
            write_pictures(journal, bill, files)
        else:
            fetch_pictures(journal, bill.job, files)
    left = [bill.job for bill in bills if bill.status not in get_args(Status)]
    if left or stuck:
        say(f"not ended: {', '.join([*left, *stuck])}; {later}", err=True)
    return exit_code([*(bill.status for bill in bills), *("blocked" for _ in stuck)])
