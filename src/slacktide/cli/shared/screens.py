"""Shows jobs on a terminal while they run: events as lines, and below them the state of the jobs.

`ControllerScreen` shows the jobs of a controller in this process, `ServerScreen` those of a server.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from slacktide.core.errors import SlacktideError
from slacktide.journal.events import Event, Submitted
from slacktide.report.live.lines import EventLines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slacktide.app.jobs.controller import Controller
    from slacktide.cli.shared.interruptions import StopRequests
    from slacktide.client.remote_run import RemoteRun
    from slacktide.report.live.screen import Screen
    from slacktide.results.status import Standing

POLL_S = 0.25
LOOK_S = 1.0  # how often the state of jobs on a server is fetched
STOPPING = "requested to cancel: the workers checkpoint, then all GPUs are released; Ctrl-C again exits"


@contextmanager
def reporting_stopped_workers(command: str) -> Iterator[None]:
    """If the block raises an error, print on stderr that the workers were stopped and how to resume."""
    try:
        yield
    except SlacktideError:
        click.echo(f"the workers were stopped; `{command}` resumes the jobs", err=True)
        raise


class ControllerScreen:
    """Shows the jobs of a controller, which calls it in each round with the market's time."""

    def __init__(
        self,
        controller: Controller,
        jobs: Iterable[str],
        screen: Screen,
        note: Callable[[], str],
        *,
        named: bool = False,
    ) -> None:
        """Show these jobs, and those submitted from now on; events from before are left out.

        `note` returns a line for the user, or "". Lines name their job if several are shown, or if `named`.
        """
        from slacktide.app.journal.live_status import Standings

        self._controller, self._jobs = controller, list(jobs)
        self._screen, self._note, self._shown_note = screen, note, ""
        self._standings = Standings(controller.engine)
        self._seq, self._began_seq = controller.opened_seq, controller.state.seq
        self._lines_of = EventLines(named=named or len(self._jobs) > 1, began=controller.began())

    def __call__(self, now_hours: float) -> None:
        """Print new events, and draw the state of the jobs."""
        lines = [self._line(record.seq, record.event) for record in self._controller.news(self._seq)]
        news = [line for line in lines if line is not None]
        if self._note() != self._shown_note:
            self._shown_note = self._note()
            news.append(f"{'':8}  {self._shown_note}")
        if news:
            self._screen.print_lines(news)
        self._screen.draw(lambda lines: self._picture(lines, now_hours), now=self._controller.idle)

    def _line(self, seq: int, event: Event) -> str | None:
        """Return the line of an event if it is news about a job that is shown; otherwise None."""
        self._seq = seq
        if isinstance(event, Submitted) and seq > self._began_seq:
            self._jobs.append(event.job)
            self._lines_of.named |= len(self._jobs) > 1
        line = self._lines_of.news(event)
        return line if event.job in self._jobs or not event.job else None

    def _picture(self, lines: Sequence[str], now_hours: float) -> RenderableType:
        from slacktide.report.live.view import Frame

        found = (self._standings.of(job, now_hours) for job in self._jobs)
        standings = [standing for standing in found if standing is not None]
        return Frame(standings, lines, speed=self._controller.clock.speed, note=self._note())


def show_live(controller: Controller, jobs: Sequence[str], stop: StopRequests, *, plain: bool) -> None:
    """Run the controller until all jobs have ended, and show them on stdout; `plain`: on stderr."""
    from slacktide.report.live.screen import screen_for

    screen = screen_for(sys.stderr if plain else sys.stdout)
    with reporting_stopped_workers("slacktide run --resume"), screen:
        controller.run(
            show=ControllerScreen(controller, jobs, screen, stop.note),
            stopping=stop,
            complain=lambda error: screen.print_lines([f"problem, retrying: {error}"]),
        )


class ServerScreen:
    """Shows jobs of a server on a screen until all have ended."""

    def __init__(self, run: RemoteRun, screen: Screen, stop: StopRequests) -> None:
        self._run, self._screen, self._stop = run, screen, stop
        self._lines_of = EventLines(named=len(run.jobs) > 1)
        self._note, self._looked_s = "", float("-inf")
        self._standings: list[Standing] = []

    def show(self) -> None:
        """Show the jobs until all have ended; a request to stop cancels them."""
        while not self._run.over:
            lines = [self._lines_of.news(record.event) for record in self._run.news()]
            if news := [line for line in lines if line is not None]:
                self._screen.print_lines(news)
            self._screen.draw(self._picture, now=self._run.over)
            if self._stop() and not self._note:
                self._note = STOPPING
                self._stop.over()  # from now on Ctrl-C exits at once
                self._screen.print_lines([f"{'':8}  {STOPPING}"])
                self._run.cancel()
            time.sleep(0.0 if self._run.over else POLL_S)

    def _picture(self, lines: Sequence[str]) -> RenderableType:
        from slacktide.report.live.view import Frame

        # Fetched less often than events, because it needs the whole course of each job.
        if time.monotonic() - self._looked_s > LOOK_S or self._run.over:
            found = [self._run.standing(job) for job in self._run.jobs]
            self._standings = [standing for standing in found if standing is not None]
            self._looked_s = time.monotonic()
        return Frame(self._standings, lines, speed=self._run.speed, note=self._note)
