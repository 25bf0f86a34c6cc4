"""`slacktide run`: runs jobs, shows them while they run, and prints their bills at the end."""

from __future__ import annotations

from typing import Any

import click

from slacktide.cli.shared import confirm
from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import is_remote, journal_path, place_options
from slacktide.cli.shared.output import is_interactive
from slacktide.cli.shared.run_options import controller_options, run_options_of, setup_of, submit_or_resume
from slacktide.cli.shared.run_report import CANCELLED, Pictures, settle
from slacktide.core.errors import InputError


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
    from slacktide.cli.shared.live_view import show_live
    from slacktide.cli.shared.signals import StopRequests

    if is_remote(given["server"]):
        from slacktide.cli.shared.run_remote import run_on_server

        return run_on_server(job, given)
    if not job and not given["resume"]:
        raise InputError("at least one job must be given, got none; name a job file, or give --resume")
    journal, wanted = journal_path(given["journal"]), run_options_of({**given, "job": job})
    if given["resume"]:
        check_exists(journal)
    if not (given["yes"] or given["fleet"]) and is_interactive():
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
