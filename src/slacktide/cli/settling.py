"""The end of a run: bills on stdout, pages and pictures into files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import policy_of
from slacktide.errors import InputError

if TYPE_CHECKING:
    from slacktide.engine.lane import Lane
    from slacktide.engine.world import Track
    from slacktide.results.bill import Bill
    from slacktide.store.base import Store


def print_bills(bills: Sequence[Bill], output: str) -> None:
    """Print the bills of a run."""
    from slacktide.report import bill as report

    if output == "json":
        common.echo_json({"jobs": [report.as_json(bill) for bill in bills]})
    else:
        click.echo("\n\n".join(report.text(bill) for bill in bills))


def write_pictures(
    store: Store, track: Track, lane: Lane, bill: Bill, given: dict[str, Any], several: str = ""
) -> None:
    """Write the page and the picture that were asked for; with several jobs each gets its own."""
    if given["report"] is None and given["plot"] is None:
        return
    from slacktide.engine.result import run_result, yardsticks

    events = [record.event for record in store.read(job=track.job)]
    try:
        run = run_result(events, lane.job, lane.pool, policy_of(track))
    except InputError as error:
        click.echo(f"no picture: {error}", err=True)
        return
    runs = [run, *yardsticks(lane)]
    if given["plot"] is not None:
        from slacktide.report.figures.run import plot_run

        _written(_named(given["plot"], several), lambda path: plot_run(runs, path))
    if given["report"] is not None:
        from slacktide.report.pages.run import write_page

        _written(_named(given["report"], several), lambda path: write_page(runs, bill, events, path))


def _named(path: str, job: str) -> Path:
    target = Path(path)
    return target.with_stem(f"{target.stem}-{job}") if job else target


def _written(path: Path, write: Any) -> None:
    write(path)
    click.echo(f"wrote {path}", err=True)
