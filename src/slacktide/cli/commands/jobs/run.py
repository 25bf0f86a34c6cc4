"""`slacktide run`: runs jobs, shows them while they run, and prints their bills at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from slacktide.cli.shared import confirm
from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import is_remote, journal_path, place_options
from slacktide.cli.shared.output import say, waiting
from slacktide.cli.shared.run_options import RunOptions, controller_options, run_options_of, setup_of
from slacktide.cli.shared.run_report import CANCELLED, Pictures, exit_code, print_bills, write_pictures
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.jobs.controller import Controller
    from slacktide.cli.shared.signals import StopRequests


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB...", nargs=-1)
@common.market_options
@common.policy_option("The policy to run with; default: the job file's")
@common.sight_option
@click.option("--fleet", type=click.Path(), metavar="FLEET", help="The fleet file that the jobs belong to.")
@click.option("--start", type=int, metavar="SLOT", help="The market slot to start in; default: a late one.")
@controller_options
@place_options
@click.option("--resume", is_flag=True, help="Resume unfinished jobs: JOB, or all of the journal.")
@click.option("-y", "--yes", is_flag=True, help="Start without asking.")
@common.report_option("Write an HTML page about the run")
@common.plot_option("Write a plot of the run")
@common.output_option("table", "json")
def run(job: tuple[str, ...], **given: Any) -> int:
    """Run JOBs, by default in local processes, on the GPUs that the policy rents.

    Ctrl-C, SIGTERM or a closed terminal lets the workers checkpoint and releases all GPUs; the same command
    resumes the jobs. Ends with the bill. Exits with 0 when all succeeded, 100 when one failed or was
    late, 101 when one did not finish, 103 when one was cancelled, and 3, before anything is rented, for a job
    that `slacktide plan` refuses.

    With --server the jobs run there, and are shown here until they end; Ctrl-C cancels them.
    """
    from slacktide.app.jobs.controller import Controller
    from slacktide.app.journal.journal import check_exists
    from slacktide.cli.shared.broken_pipe import steady_output
    from slacktide.cli.shared.signals import StopRequests

    if is_remote(given["server"]):
        from slacktide.cli.shared.run_remote import run_on_server

        return run_on_server(job, given)
    if not job and not given["resume"]:
        raise InputError("at least one job must be given, got none; name a job file, or give --resume")
    journal, wanted = journal_path(given["journal"]), run_options_of({**given, "job": job})
    if given["resume"]:
        check_exists(journal)
    if not (given["yes"] or given["fleet"]) and confirm.can_ask():
        pool = confirm.agreed(journal, job, wanted.plan)
        if pool is None:
            click.echo("nothing was started", err=True)
            return CANCELLED
        # What the user agreed to is what runs: the pool of the plan, unless the jobs move by themselves.
        wanted = wanted if wanted.may_move(job) else wanted.on_pool(pool)
    elif not (given["fleet"] or given["resume"]):
        confirm.check(journal, job, wanted.plan)
    setup = setup_of(given, wanted.for_others())
    with StopRequests(given["on_hangup"]) as stop, Controller(journal, setup) as controller:
        with steady_output():
            jobs = submit_or_resume(controller, job, wanted, resume=given["resume"])
            show_live(controller, jobs, stop, plain=given["output"] == "json")
        # The bill is printed without `steady_output`: a full disk must not go unnoticed.
        stop.over()
        return settle(controller, jobs, Pictures(given["report"], given["plot"]), given["output"])


def submit_or_resume(
    controller: Controller, paths: Sequence[str], wanted: RunOptions, *, resume: bool
) -> list[str]:
    """Submit the jobs, or resume them; return the ids of all jobs that will run."""
    named = {str(Path(path).absolute()) for path in paths}
    if resume:
        _accept_waiting(controller)
    active = set(controller.journal.unfinished().values())
    if resume and not active:
        came = "but all have" if controller.state.jobs else "got a journal without any job"
        raise InputError(
            f"{controller.path}: an unfinished job must exist, {came}; name a job file to start it, or "
            "another journal with --journal"
        )
    if resume and named - active:
        missing = next(path for path in paths if str(Path(path).absolute()) not in active)
        raise InputError(f"{missing}: it must have started and not ended; leave out --resume to start it")
    if active - named and not resume:
        others = ", ".join(sorted(active - named))
        say(f"unfinished jobs of this journal resume too: {others}", err=True)
    for path in paths:
        if controller.active_of(path) is None:
            controller.submit(wanted.submission(path))
    return list(controller.journal.unfinished())


def _accept_waiting(controller: Controller) -> None:
    """Decide on waiting submissions, and print on stderr which were refused."""
    waiting = controller.journal.waiting()
    controller.answer()
    for submission in waiting:
        answer = controller.state.requests.answers[submission.key]
        if not answer.job:
            click.echo(f"refused {submission.path} (key {submission.key}): {answer.why}", err=True)


def show_live(controller: Controller, jobs: Sequence[str], stop: StopRequests, *, plain: bool) -> None:
    """Run until all jobs have ended, and show it: on stderr if JSON goes to stdout."""
    from slacktide.cli.shared.live_view import ControllerScreen, reporting_stopped_workers
    from slacktide.report.live.screen import screen_for

    screen = screen_for(sys.stderr if plain else sys.stdout)
    with reporting_stopped_workers("slacktide run --resume"), screen:
        controller.run(
            show=ControllerScreen(controller, jobs, screen, stop.note, after=controller.opened_seq),
            stopping=stop,
            complain=lambda error: screen.print_lines([f"problem, retrying: {error}"]),
        )


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
