"""`slacktide run --server`: runs jobs on a server and shows them here until they end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import check_left_to_server, remote
from slacktide.cli.shared.output import is_interactive, say
from slacktide.cli.shared.remote_answers import check_affordable, plan_text
from slacktide.cli.shared.run_report import CANCELLED, Pictures, exit_code, fetch_pictures, print_bills
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slacktide.app.jobs.submission import Submission
    from slacktide.cli.shared.signals import StopRequests
    from slacktide.client.remote import RemoteJournal
    from slacktide.client.remote_run import RemoteRun
    from slacktide.report.live.rows import Standing
    from slacktide.report.live.screen import Screen

SERVERS = (
    "market", "slot_hours", "gaps", "spot_usd", "on_demand_usd", "fleet", "start", "backend", "machines",
    "speed", "notice", "resume",
)  # fmt: skip
"""Options that a server decides for all its jobs."""
POLL_S = 0.25
LOOK_S = 1.0  # how often the state of jobs is fetched
STOPPING = "requested to cancel: the workers checkpoint, then all GPUs are released; Ctrl-C again exits"


def run_on_server(paths: Sequence[str], given: Mapping[str, Any]) -> int:
    """Run jobs on a server, show them here, and return the exit code of the command."""
    from slacktide.cli.shared.broken_pipe import steady_output
    from slacktide.cli.shared.signals import StopRequests
    from slacktide.client.remote_run import RemoteRun, submit_all
    from slacktide.report.live.screen import screen_for

    check_left_to_server(SERVERS)
    if not paths:
        raise InputError("at least one job must be given, got none; name a job file")
    wanted = [_submission(path, given) for path in paths]
    with remote(given["server"]) as journal:
        if not _agreed(journal, wanted, given):
            click.echo("nothing was started", err=True)
            return CANCELLED
        screen = screen_for(sys.stderr if given["output"] == "json" else sys.stdout)
        # A stop that is requested during submission cancels the jobs once they have arrived.
        with StopRequests(given["on_hangup"]) as stop, steady_output(), screen:
            jobs = submit_all(journal, wanted)
            ServerScreen(RemoteRun(journal, jobs), screen, stop).show()
        return _settle(journal, jobs, given)


def _agreed(journal: RemoteJournal, wanted: Sequence[Submission], given: Mapping[str, Any]) -> bool:
    """Show plans and request confirmation, if possible; otherwise raise the error of a refused plan."""
    if given["yes"] or not is_interactive():
        for one in wanted:
            check_affordable(journal, one, given)
        return True
    for one in wanted:
        click.echo(f"{plan_text(journal, one.file.path, given)}\n")
    return click.confirm("Begin?")


def _submission(path: str, given: Mapping[str, Any]) -> Submission:
    from slacktide.app.jobs.submission import Submission
    from slacktide.app.markets.market import MarketSpec

    policy = common.parse_policy(given["policy"], path)
    return Submission.read(path, policy=policy, market=MarketSpec(pool=given["pool"]), sight=given["sight"])


class ServerScreen:
    """Shows jobs of a server on a screen until all have ended."""

    def __init__(self, run: RemoteRun, screen: Screen, stop: StopRequests) -> None:
        from slacktide.report.live.lines import EventLines

        self._run, self._screen, self._stop = run, screen, stop
        self._lines_of = EventLines(named=len(run.jobs) > 1)
        self._note, self._looked_s = "", float("-inf")
        self._standings: list[Standing] = []

    def show(self) -> None:
        """Show what happens until it is over; a request to stop cancels the jobs."""
        while not self._run.over:
            self._print_news()
            self._screen.draw(self._picture, now=self._run.over)
            if self._stop() and not self._note:
                self._note = STOPPING
                self._stop.over()  # from now on Ctrl-C exits at once
                self._screen.print_lines([f"{'':8}  {STOPPING}"])
                self._run.cancel()
            time.sleep(0.0 if self._run.over else POLL_S)

    def _print_news(self) -> None:
        lines = [self._lines_of.news(record.event) for record in self._run.news()]
        if news := [line for line in lines if line is not None]:
            self._screen.print_lines(news)

    def _picture(self, lines: Sequence[str]) -> RenderableType:
        from slacktide.report.live.view import frame

        # Fetched less often than events: it takes the whole course of each job.
        if time.monotonic() - self._looked_s > LOOK_S or self._run.over:
            found = [self._run.standing(job) for job in self._run.jobs]
            self._standings = [one for one in found if one is not None]
            self._looked_s = time.monotonic()
        return frame(self._standings, lines, speed=self._run.speed, note=self._note)


def _settle(journal: RemoteJournal, jobs: Sequence[str], given: Mapping[str, Any]) -> int:
    """Print the bills, and return the exit code."""
    from slacktide.cli.shared.broken_pipe import until_pipe_closes
    from slacktide.cli.shared.output import waiting
    from slacktide.journal.events import Status

    with waiting("computing what other ways would have cost"):
        bills = [journal.bill(job) for job in jobs]
    with until_pipe_closes():
        print_bills(bills, given["output"])
    for job in jobs:
        pictures = Pictures(given["report"], given["plot"])
        fetch_pictures(journal, job, pictures, job if len(jobs) > 1 else "")
    left = [bill.job for bill in bills if bill.status not in get_args(Status)]
    if left:
        say(f"not ended: {', '.join(left)}; the server continues them", err=True)
    return exit_code([bill.status for bill in bills])
