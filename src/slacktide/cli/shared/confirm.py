"""Shows the plans of jobs, and requests confirmation before anything is rented."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from slacktide.cli.shared.output import ProgressBar, say

if TYPE_CHECKING:
    from slacktide.app.task_requests import JobTask, PlanRequest

    PlanTask: TypeAlias = Callable[[str], JobTask[PlanRequest]]


def agreed(journal: Path, paths: Sequence[str], plan_task: PlanTask) -> str | None:
    """Show the plans of jobs not started before, and ask; return the pool that was planned for.

    Returns None if the answer was no. The run must keep to the plan: if there is only one, the jobs run in
    its pool; the result is empty if no single pool was planned for.
    """
    from slacktide.app.journal.journal import unfinished_files

    begun = unfinished_files(journal)
    fresh = _fresh(paths, begun)
    if not fresh:
        return ""
    # With the journal, so that a plan knows how much work earlier runs of the job really were.
    pools = [_show_plan(dataclasses.replace(plan_task(path), journal=journal)) for path in fresh]
    if others := begun - {_absolute(path) for path in paths}:
        say(f"This journal has unfinished jobs, which resume too: {', '.join(sorted(others))}.")
    if not click.confirm("Begin?"):
        return None
    return pools[0] if len(pools) == 1 else ""


def check(journal: Path, paths: Sequence[str], plan_task: PlanTask) -> None:
    """Raise the error of a plan that is refused, for jobs not started before; shows nothing."""
    from slacktide.app.journal.journal import unfinished_files
    from slacktide.app.planning.plan import check_plan

    for path in _fresh(paths, unfinished_files(journal)):
        check_plan(plan_task(path))


def _fresh(paths: Sequence[str], begun: Collection[str]) -> list[str]:
    # A job that resumes was confirmed when it started.
    return [path for path in paths if _absolute(path) not in begun]


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _show_plan(task: JobTask[PlanRequest]) -> str:
    """Print the plan of a job and return the pool that it chose; empty for a job that may move."""
    from slacktide.app.planning.plan import make_plan
    from slacktide.report.text.tables.plan import page

    with ProgressBar("planning") as bar:
        result = make_plan(task, progress=bar)
    click.echo(f"{page(result)}\n")
    return result.pool if result.moving is None else ""
