"""The journal that a command reads or asks something of, and the jobs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from slacktide.engine.world import Track, World
    from slacktide.store.base import Store

Command = TypeVar("Command", bound=Callable[..., Any])

FOLLOW_S = 0.2
"""How often `-f` looks for more."""


def journal_option(command: Command) -> Command:
    """Add `--journal`, which says which journal is meant."""
    return click.option(
        "--journal",
        type=click.Path(),
        envvar="SLACKTIDE_JOURNAL",
        metavar="PATH",
        help="The journal; otherwise $SLACKTIDE_JOURNAL, or your own.",
    )(command)


def journal_path(given: str | None) -> Path:
    """Return the journal that was named, or the user's own."""
    from slacktide.store.home import journal_path as own

    return Path(given) if given else own()


@contextmanager
def opened(given: str | None) -> Iterator[Store]:
    """Open the journal that was named; raises InputError when there is none."""
    from slacktide.running import open_journal

    with open_journal(journal_path(given)) as store:
        yield store


def task_of(track: Track) -> tuple[float, float]:
    """Return the GPU-hours of work of a job and its deadline; its market need not be there any more."""
    if track.submitted.work_gpu_hours > 0:
        return track.submitted.work_gpu_hours, track.submitted.deadline_hours
    return _written_task(track)


def _written_task(track: Track) -> tuple[float, float]:
    """Read the same from the job file, for a journal of before."""
    from datetime import datetime

    from slacktide.jobfile import parse_job

    submitted = track.submitted
    now = datetime.fromisoformat(submitted.submitted_utc)
    job = parse_job(submitted.text, path=submitted.path, now=now).job
    return job.work_gpu_hours, job.deadline_hours


def status_of(track: Track, world: World) -> str:
    """Return a job's state in the words users see; `released` while no controller looks after it."""
    return "released" if track.active and (track.released or world.controller is None) else track.status


def policy_of(track: Track) -> str:
    """Return the policy of a job as users write it."""
    from slacktide.report.sentences import policy_name

    return policy_name(track.submitted.policy)


def elapsed_hours(track: Track, now_hours: float) -> float:
    """Return how long a job has been under way, or was."""
    end = now_hours if track.ended is None else track.ended.at_hours
    return max(0.0, end - track.began_hours)


def say_who_acts(store: Store) -> None:
    """Say on stderr when nobody is there to do what was asked of a journal."""
    from slacktide.running import read_world

    if read_world(store).controller is None:
        click.echo(
            "no controller is in charge of this journal; `slacktide run --resume` carries it out", err=True
        )
