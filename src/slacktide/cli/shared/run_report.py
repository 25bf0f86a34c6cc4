"""Prints the bills of a run, writes its page and its picture, and chooses the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from slacktide.cli.shared.output import echo_json, say
from slacktide.core.errors import InputError

if TYPE_CHECKING:
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
