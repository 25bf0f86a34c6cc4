"""The question before anything is rented: what it will probably cost, and whether to begin."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common

if TYPE_CHECKING:
    from slacktide.engine.world import World


def agreed(journal: Path, paths: Sequence[str], options: dict[str, Any]) -> bool:
    """Show the plan and ask; no question with `-y`, without a terminal, or when all was begun before.

    What the plan was made for is what is run: a pool that it chose is put into the options.
    """
    if options["yes"] or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    world = _world(journal)
    begun = {track.submitted.path for track in world.active} if world else set()
    fresh = [path for path in paths if str(Path(path).absolute()) not in begun]
    others = begun - {str(Path(path).absolute()) for path in paths}
    if options["fleet"] or not fresh:
        return True
    for path in fresh:
        pool = _show_plan(path, options)
        if len(fresh) == 1:
            options["pool"] = pool
    if others:
        click.echo(f"This journal has jobs that have not ended; they go on too: {', '.join(sorted(others))}.")
    return click.confirm("Begin?")


def _world(journal: Path) -> World | None:
    from slacktide.running import open_journal, read_world

    if not journal.exists():
        return None
    with open_journal(journal) as store:
        return read_world(store)


def _show_plan(path: str, options: dict[str, Any]) -> str:
    """Print the plan of a job and return the pool that it chose."""
    from slacktide.app.plan import PlanRequest, make_plan
    from slacktide.report.plan import page

    request = PlanRequest(path=path, market=common.market_spec(options), policy=options["policy"])
    with common.Bar("planning") as bar:
        result = make_plan(request, progress=bar)
    click.echo(f"{page(result)}\n")
    return result.pool
