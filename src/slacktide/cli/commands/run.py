"""`slacktide run`: plans and asks, runs jobs here or on a server, shows them, and prints their bills."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import (
    check_left_to_server,
    is_remote,
    journal_path,
    place_options,
    remote,
)
from slacktide.cli.shared.output import ProgressBar, is_interactive, say
from slacktide.cli.shared.run_options import controller_options, run_options_of, setup_of, submit_or_resume
from slacktide.cli.shared.run_report import CANCELLED, settle
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.jobs.submission import Submission
    from slacktide.app.task_requests import JobTask, PlanRequest
    from slacktide.client.remote import RemoteJournal

    PlanTask: TypeAlias = Callable[[str], JobTask[PlanRequest]]

SERVERS = (
    "market", "slot_hours", "gaps", "spot_usd", "on_demand_usd", "fleet", "start", "backend", "machines",
    "speed", "notice", "resume",
)  # fmt: skip
"""Options that a server decides for all its jobs, so that `--server` excludes them."""


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB...", nargs=-1)
@common.market_options
@common.policy_option("The policy to run with; default: the job file's")
@common.sight_option()
@click.option("--fleet", type=click.Path(), metavar="FLEET", help="The fleet file that the jobs belong to.")
@click.option("--start", type=int, metavar="SLOT", help="The market slot to start in; default: a late one.")
@controller_options
@place_options
@click.option(
    "--resume", is_flag=True, help="Resume all unfinished jobs of the journal; each JOB must be one."
)
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
    from slacktide.cli.shared.interruptions import StopRequests, steady_output
    from slacktide.cli.shared.screens import show_live

    if is_remote(given["server"]):
        return _run_on_server(job, given)
    if not job and not given["resume"]:
        raise InputError("at least one job must be given, got none; name a job file, or give --resume")
    journal, wanted = journal_path(given["journal"]), run_options_of({**given, "job": job})
    if given["resume"]:
        check_exists(journal)
    if not (given["yes"] or given["fleet"]) and is_interactive():
        pool = agreed(journal, job, wanted.plan)
        if pool is None:
            click.echo("nothing was started", err=True)
            return CANCELLED
        # The jobs must run in the pool of the plan that the user agreed to, unless they may move.
        wanted = wanted if wanted.may_move(job) else wanted.on_pool(pool)
    elif not (given["fleet"] or given["resume"]):
        _check_plans(journal, job, wanted.plan)
    setup = setup_of(given, wanted.for_others())
    with StopRequests(given["on_hangup"]) as stop, Controller(journal, setup) as controller:
        with steady_output():
            jobs = submit_or_resume(controller, job, wanted, resume=given["resume"])
            show_live(controller, jobs, stop, plain=given["output"] == "json")
        # The bill is printed without `steady_output`, so that a full disk is reported.
        stop.over()
        return settle(controller.journal, jobs, given, stuck=controller.without_market())


def agreed(journal: Path, paths: Sequence[str], plan_task: PlanTask) -> str | None:
    """Show the plans of jobs that were not started before, and ask; return the pool in which to run them.

    None if the answer was no. Empty if no job or more than one was planned, or if the job may move.
    """
    from slacktide.app.journal.journal import unfinished_files

    begun = unfinished_files(journal)
    fresh = _fresh(paths, begun)
    if not fresh:
        return ""
    # With the journal, so that a plan knows how much work earlier runs of the job really took.
    pools = [_show_plan(dataclasses.replace(plan_task(path), journal=journal)) for path in fresh]
    if others := begun - {str(Path(path).absolute()) for path in paths}:
        say(f"This journal has unfinished jobs, which resume too: {', '.join(sorted(others))}.")
    if not click.confirm("Begin?"):
        return None
    return pools[0] if len(pools) == 1 else ""


def _check_plans(journal: Path, paths: Sequence[str], plan_task: PlanTask) -> None:
    """Plan the jobs that were not started before, without showing it; raises the error of a refused plan."""
    from slacktide.app.journal.journal import unfinished_files
    from slacktide.app.planning.plan import check_plan

    for path in _fresh(paths, unfinished_files(journal)):
        check_plan(plan_task(path))


def _fresh(paths: Sequence[str], begun: Collection[str]) -> list[str]:
    # A job that resumes was confirmed when it was started.
    return [path for path in paths if str(Path(path).absolute()) not in begun]


def _show_plan(task: JobTask[PlanRequest]) -> str:
    """Print the plan of a job and return the pool that it chose; empty for a job that may move."""
    from slacktide.app.planning.plan import make_plan
    from slacktide.report.text.tables.plan import page

    with ProgressBar("planning") as bar:
        result = make_plan(task, progress=bar)
    click.echo(f"{page(result)}\n")
    return result.pool if result.moving is None else ""


def _run_on_server(paths: Sequence[str], given: Mapping[str, Any]) -> int:
    """Run jobs on a server, show them here, and return the exit code of the command."""
    from slacktide.cli.shared.interruptions import StopRequests, steady_output
    from slacktide.cli.shared.screens import ServerScreen
    from slacktide.client.remote_run import RemoteRun, submit_all
    from slacktide.report.live.screen import screen_for

    check_left_to_server(SERVERS)
    if not paths:
        raise InputError("at least one job must be given, got none; name a job file")
    wanted = [_submission(path, given) for path in paths]
    with remote(given["server"]) as journal:
        if not _agreed_with_server(journal, wanted, given):
            click.echo("nothing was started", err=True)
            return CANCELLED
        screen = screen_for(sys.stderr if given["output"] == "json" else sys.stdout)
        # If a stop is requested during submission, the jobs are cancelled once all are submitted.
        with StopRequests(given["on_hangup"]) as stop, steady_output(), screen:
            jobs = submit_all(journal, wanted)
            ServerScreen(RemoteRun(journal, jobs), screen, stop).show()
        return settle(journal, jobs, given, later="the server continues them")


def _submission(path: str, given: Mapping[str, Any]) -> Submission:
    from slacktide.app.jobs.submission import Submission
    from slacktide.app.markets.market import MarketSpec

    policy = common.parse_policy(given["policy"], path)
    return Submission.read(path, policy=policy, market=MarketSpec(pool=given["pool"]), sight=given["sight"])


def _agreed_with_server(
    journal: RemoteJournal, wanted: Sequence[Submission], given: Mapping[str, Any]
) -> bool:
    """Show the plans, ask, and return the answer; if it cannot ask, raise the error of a refused plan."""
    from slacktide.cli.shared.remote_answers import check_affordable, plan_text

    if given["yes"] or not is_interactive():
        for submission in wanted:
            check_affordable(journal, submission, given)
        return True
    for submission in wanted:
        click.echo(f"{plan_text(journal, submission.file.path, given)}\n")
    return click.confirm("Begin?")
