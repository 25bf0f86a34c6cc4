"""Prints the bills of a run, writes its page and its picture, and chooses the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

import click

from slacktide.cli.shared.output import echo_json, say, waiting
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.jobs.controller import Controller
    from slacktide.app.journal.journal import Journal
    from slacktide.client.remote import RemoteJournal
    from slacktide.results.bill import Bill

FAILED, NOT_FINISHED, CANCELLED = 100, 101, 103
CODES = {"succeeded": 0, "failed": FAILED, "deadline_missed": FAILED, "cancelled": CANCELLED}
"""Exit codes by the final state of a job; any other state is of a job that did not finish."""


class Pictures(NamedTuple):
    """The requested page and picture of a run."""

    report: str | None = None
    plot: str | None = None


def print_bills(bills: Sequence[Bill], output: str) -> None:
    """Print the bills of a run."""
    from slacktide.report.text.bills import job as report

    if output == "json":
        echo_json({"jobs": [report.as_json(bill) for bill in bills]})
    else:
        say("\n\n".join(report.text(bill) for bill in bills))


def write_pictures(journal: Journal, bill: Bill, wanted: Pictures, several: str = "") -> None:
    """Write the requested page and picture; with several jobs each gets its own."""
    if wanted == Pictures():
        return
    try:
        found = journal.run(bill.job)
    except InputError as error:
        click.echo(f"no plot: {error}", err=True)
        return
    if wanted.plot is not None:
        from slacktide.report.figures.run import plot_run

        _written(_named(wanted.plot, several), lambda path: plot_run(found.runs, path))
    if wanted.report is not None:
        from slacktide.report.pages.run import write_page

        _written(
            _named(wanted.report, several), lambda path: write_page(found.runs, bill, found.events, path)
        )


def fetch_pictures(journal: RemoteJournal, job: str, wanted: Pictures, several: str = "") -> None:
    """Request the page and the picture from a server, and write them here."""
    from slacktide.client.http import ServerError

    try:
        if wanted.plot is not None:
            path = _named(wanted.plot, several)
            picture = journal.picture(job, path.suffix.removeprefix(".").lower())
            _written(path, lambda path: path.write_bytes(picture))
        if wanted.report is not None:
            page = journal.page(job)
            _written(_named(wanted.report, several), lambda path: path.write_bytes(page))
    except ServerError as error:
        if error.exit_code != InputError.exit_code:
            raise
        click.echo(f"no plot: {error}", err=True)


def _named(path: str, job: str) -> Path:
    target = Path(path)
    return target.with_stem(f"{target.stem}-{job}") if job else target


def _written(path: Path, write: Callable[[Path], object]) -> None:
    write(path)
    click.echo(f"wrote {path}", err=True)


def exit_code(statuses: Sequence[str]) -> int:
    """Return the exit code of a run: that of the worst state of its jobs."""
    codes = {CODES.get(status, NOT_FINISHED) for status in statuses}
    return next((code for code in (FAILED, NOT_FINISHED, CANCELLED) if code in codes), 0)


def settle(controller: Controller, jobs: Sequence[str], pictures: Pictures, output: str) -> int:
    """Print the bills, write the requested files, and return the exit code."""
    from slacktide.cli.shared.broken_pipe import until_pipe_closes
    from slacktide.journal.events import Status

    journal = controller.journal
    stuck = controller.without_market()
    with waiting("computing what other ways would have cost"):
        bills = [journal.bill(job) for job in jobs if job not in stuck]
    for job in filter(stuck.__contains__, jobs):
        say(f"{job} has no bill yet, because it is blocked: {stuck[job]}", err=True)
    with until_pipe_closes():
        print_bills(bills, output)
    for bill in bills:
        write_pictures(journal, bill, pictures, bill.job if len(bills) > 1 else "")
    left = [bill.job for bill in bills if bill.status not in get_args(Status)]
    if left or stuck:
        say(f"not ended: {', '.join([*left, *stuck])}; `slacktide run --resume` continues", err=True)
    return exit_code([*(bill.status for bill in bills), *("blocked" for _ in stuck)])
