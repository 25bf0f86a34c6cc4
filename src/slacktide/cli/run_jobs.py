"""`slacktide run`: carry jobs out, show them while they run, and end with their bills."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import journal_option, journal_path
from slacktide.errors import BackendError, InputError

if TYPE_CHECKING:
    from slacktide.cli.stopping import Stopping
    from slacktide.engine.world import Track
    from slacktide.register import Spec
    from slacktide.running import Session

FAILED, NOT_FINISHED, CANCELLED = 100, 101, 103
CODES = {"succeeded": 0, "failed": FAILED, "deadline_missed": FAILED, "cancelled": CANCELLED}
"""What a job's end is to a shell; any other is of a job that did not finish."""


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB...", nargs=-1)
@common.market_options
@click.option("--policy", metavar="NAME", help="The policy to run with; otherwise the job file's.")
@click.option("--fleet", type=click.Path(), metavar="FLEET", help="The jobs are of this fleet file's stream.")
@click.option(
    "--start", type=int, metavar="SLOT", help="The market's slot to begin in; otherwise a late one."
)
@click.option(
    "--backend", metavar="NAME", help="Where workers run; otherwise local. `slacktide backends` lists them."
)
@click.option("--speed", type=float, metavar="X", help="How many times as fast as the wall's the clock runs.")
@click.option(
    "--notice", type=common.Duration(), default="0s", show_default=True,
    help="How long before the market takes workers they are told, by the wall clock.",
)  # fmt: skip
@journal_option
@click.option("--resume", is_flag=True, help="Take up jobs that have not ended: JOB, or all of the journal.")
@click.option("-y", "--yes", is_flag=True, help="Begin without asking.")
@click.option("--report", type=click.Path(), metavar="FILE.html", help="Write a page about the run.")
@click.option("--plot", type=click.Path(), metavar="FILE.png", help="Write a picture of the run.")
@common.output_option("table", "json")
def run(job: tuple[str, ...], **given: Any) -> int:
    """Run JOBs, in local processes unless told otherwise, on the GPUs that the policy rents.

    Ctrl-C lets the workers checkpoint and lets go of all GPUs; the same command takes the jobs up again. Ends
    with the bill. Exits with 0 when all succeeded, 100 when one failed or was late, 101 when one did not
    finish, 103 when one was cancelled.
    """
    from slacktide.cli.asking import agreed
    from slacktide.cli.stopping import Stopping
    from slacktide.running import Session

    journal = journal_path(given["journal"])
    options = {**given, "policy": _policy(given["policy"])}
    if not job and not given["resume"]:
        raise InputError("a run must have a job, got none; name a job file, or give --resume")
    if not agreed(journal, job, options):
        click.echo("nothing was started", err=True)
        return CANCELLED
    notice_s = given["notice"] * 3600.0
    with Session(journal, speed=given["speed"], notice_s=notice_s, backend=given["backend"]) as session:
        with Stopping() as stop:
            jobs = take_in(session, job, options)
            show_live(session, jobs, stop, plain=given["output"] == "json")
        return settle(session, jobs, given)


def _policy(text: str | None) -> Spec | None:
    return next(iter(common.parse_policies((text,))), None) if text else None


def take_in(session: Session, paths: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Hand the jobs in, or take them up again; return the ids of all that will run."""
    active = {track.submitted.path for track in session.world.active}
    if options["resume"]:
        if not active:
            raise InputError(
                f"{session.journal}: some job must not have ended, but all have; name a job file"
            )
        for path in paths:
            if str(Path(path).absolute()) not in active:
                raise InputError(
                    f"{path}: it must have been begun and not ended; leave out --resume to begin it"
                )
    others = sorted(active - {str(Path(path).absolute()) for path in paths})
    if others and not options["resume"]:
        click.echo(f"jobs of this journal that have not ended go on too: {', '.join(others)}", err=True)
    for path in paths:
        session.submit(path, options)
    return [track.job for track in session.world.active]


def show_live(session: Session, jobs: Sequence[str], stop: Stopping, *, plain: bool) -> None:
    """Run until all is over, and show it: results go to stdout, so with JSON the view goes to stderr."""
    from slacktide.cli.watching import Watch
    from slacktide.report.live.screen import screen_for

    with screen_for(sys.stderr if plain else sys.stdout) as screen:
        try:
            session.run(
                show=Watch(session, jobs, screen, stop.note),
                stopping=stop,
                complain=lambda error: screen.tell([f"trouble, trying again: {error}"]),
            )
        except BackendError as error:
            raise type(error)(
                f"{error}; the workers were let go, `slacktide run --resume` takes the jobs up again"
            ) from error


def settle(session: Session, jobs: Sequence[str], given: dict[str, Any]) -> int:
    """Print the bills, write what was asked for, and return the exit code."""
    from slacktide.cli.settling import print_bills, write_pictures
    from slacktide.engine.bill import bill

    tracks = [session.world.jobs[job] for job in jobs]
    bills = [bill(track, session.engine.lane(track)) for track in tracks]
    print_bills(bills, given["output"])
    for track, drawn in zip(tracks, bills, strict=True):
        several = track.job if len(tracks) > 1 else ""
        write_pictures(session.store, track, session.engine.lane(track), drawn, given, several)
    left = [track.job for track in tracks if track.active]
    if left:
        click.echo(f"not ended: {', '.join(left)}; `slacktide run --resume` goes on", err=True)
    return exit_code(tracks)


def exit_code(tracks: Sequence[Track]) -> int:
    """Return what the ends of jobs are to a shell: the worst of them."""
    codes = {NOT_FINISHED if track.active else CODES.get(track.status, NOT_FINISHED) for track in tracks}
    return next((code for code in (FAILED, NOT_FINISHED, CANCELLED) if code in codes), 0)
