"""The end of a run: bills on stdout, pages and pictures into files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from slacktide.cli import options as common
from slacktide.cli.output import say
from slacktide.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.journal import Journal
    from slacktide.results.bill import Bill


class Pictures(NamedTuple):
    """The page and the picture of a run that were asked for."""

    report: str | None = None
    plot: str | None = None


def print_bills(bills: Sequence[Bill], output: str) -> None:
    """Print the bills of a run."""
    from slacktide.report.bills import job as report

    if output == "json":
        common.echo_json({"jobs": [report.as_json(bill) for bill in bills]})
    else:
        say("\n\n".join(report.text(bill) for bill in bills))


def write_pictures(journal: Journal, bill: Bill, wanted: Pictures, several: str = "") -> None:
    """Write the page and the picture that were asked for; with several jobs each gets its own."""
    if wanted == Pictures():
        return
    try:
        told = journal.run(bill.job)
    except InputError as error:
        click.echo(f"no plot: {error}", err=True)
        return
    if wanted.plot is not None:
        from slacktide.report.figures.run import plot_run

        _written(_named(wanted.plot, several), lambda path: plot_run(told.runs, path))
    if wanted.report is not None:
        from slacktide.report.pages.run import write_page

        _written(_named(wanted.report, several), lambda path: write_page(told.runs, bill, told.events, path))


def _named(path: str, job: str) -> Path:
    target = Path(path)
    return target.with_stem(f"{target.stem}-{job}") if job else target


def _written(path: Path, write: Callable[[Path], object]) -> None:
    write(path)
    click.echo(f"wrote {path}", err=True)
