"""`slacktide controller`: runs the jobs submitted to a journal, until it is stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared.journals import journal_option, journal_path
from slacktide.cli.shared.output import say
from slacktide.cli.shared.run_options import run_options_of, setup_of, staying_options

if TYPE_CHECKING:
    from slacktide.app.jobs.controller import Controller
    from slacktide.cli.shared.signals import StopRequests


@click.command()
@staying_options
@journal_option
def controller(**given: Any) -> int:
    """Run the jobs submitted to a journal, until Ctrl-C, SIGTERM or a closed terminal.

    Jobs come from `slacktide submit`, run in any process, even before the controller started. Jobs
    that have not ended are resumed. Prints a line for everything that changes. When it is
    stopped, the workers checkpoint and all GPUs are released; the next controller resumes the jobs.
    """
    from slacktide.app.jobs.controller import Controller
    from slacktide.cli.shared.broken_pipe import steady_output
    from slacktide.cli.shared.signals import StopRequests

    defaults = run_options_of(given).for_all()
    defaults.check()
    path, setup = journal_path(given["journal"]), setup_of(given, defaults)
    with steady_output(), StopRequests(given["on_hangup"]) as stop:
        with Controller(path, setup) as running:
            _stay(running, stop)
            left = list(running.journal.unfinished())
        if left:
            say(f"not ended: {', '.join(left)}; `slacktide controller` resumes them", err=True)
    return 0


def _stay(running: Controller, stop: StopRequests) -> None:
    """Run until stopped, and print what happens."""
    from slacktide.cli.shared.live_view import ControllerScreen, reporting_stopped_workers
    from slacktide.report.live.screen import Lines

    screen, jobs = Lines(sys.stdout), running.journal.unfinished()
    watch = ControllerScreen(running, jobs, screen, stop.note, after=running.opened_seq, named=True)
    with reporting_stopped_workers("slacktide controller"):
        running.run(
            staying=True,
            show=watch,
            stopping=stop,
            complain=lambda error: screen.print_lines([f"problem, retrying: {error}"]),
            report=lambda line: screen.print_lines([line]),
        )
