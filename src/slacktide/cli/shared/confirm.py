"""Shows the plans of jobs and asks for confirmation before anything is rented."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared.output import ProgressBar, say
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.planning.plan import PlanRequest


def can_ask() -> bool:
    """Whether a user can be asked: input and output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def agreed(journal: Path, wanted: Sequence[PlanRequest]) -> str | None:
    """Show the plans of jobs not started before, and ask; return the pool that was planned for.

    Returns None if the answer was no. The run must keep to the plan: if there is only one, the jobs run in
    its pool; the result is empty if no single pool was planned for.
    """
    from slacktide.app.journal.journal import unfinished_files

    begun, paths = unfinished_files(journal), {str(Path(one.path).absolute()) for one in wanted}
    fresh = _fresh(wanted, begun)
    if not fresh:
        return ""
    # With the journal, so that a plan knows how much work earlier runs of the job really were.
    pools = [_show_plan(dataclasses.replace(one, journal=journal)) for one in fresh]
    if begun - paths:
        others = ", ".join(sorted(begun - paths))
        say(f"This journal has unfinished jobs, which resume too: {others}.")
    if not click.confirm("Begin?"):
        return None
    return pools[0] if len(pools) == 1 else ""


def check(journal: Path, wanted: Sequence[PlanRequest]) -> None:
    """Raise the error of a plan that is refused, for jobs not started before; asks nothing."""
    from slacktide.app.journal.journal import unfinished_files
    from slacktide.app.planning.plan import check_plan

    for one in _fresh(wanted, unfinished_files(journal)):
        check_plan(one)


def _fresh(wanted: Sequence[PlanRequest], begun: Collection[str]) -> list[PlanRequest]:
    # A job that resumes was confirmed when it started.
    return [one for one in wanted if str(Path(one.path).absolute()) not in begun]


def _show_plan(request: PlanRequest) -> str:
    """Print the plan of a job and return the pool that it chose; empty for a job that may move."""
    from slacktide.app.planning.plan import make_plan
    from slacktide.report.text.tables.plan import page

    with ProgressBar("planning") as bar:
        result = make_plan(request, progress=bar)
    click.echo(f"{page(result)}\n")
    return result.pool if result.moving is None else ""


def confirm_forgetting(what: str, *, sure: bool) -> None:
    """Ask before everything is forgotten; raises InputError without a terminal to ask on."""
    if sure:
        return
    if not sys.stdin.isatty():
        raise InputError(f"forgetting {what} must be confirmed, got no terminal to ask on; give -y")
    click.confirm(f"forget everything learned in {what}?", abort=True, err=True)
