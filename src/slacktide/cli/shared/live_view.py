"""Shows a running controller on a screen: events as lines, the state of its jobs as a picture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from slacktide.core.errors import SlacktideError
from slacktide.journal.events import Event, Submitted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slacktide.app.jobs.controller import Controller
    from slacktide.cli.shared.signals import StopRequests
    from slacktide.report.live.screen import Screen


@contextmanager
def reporting_stopped_workers(command: str) -> Iterator[None]:
    """Print on stderr, if the run ends with an error, that its workers were stopped and how to resume."""
    try:
        yield
    except SlacktideError:
        click.echo(f"the workers were stopped; `{command}` resumes the jobs", err=True)
        raise


class ControllerScreen:
    """Shows a controller on a screen; the controller calls it in each round with the time."""

    def __init__(
        self,
        controller: Controller,
        jobs: Iterable[str],
        screen: Screen,
        note: Callable[[], str],
        *,
        after: int = 0,
        named: bool = False,
    ) -> None:
        """Show these jobs, and those that are submitted from now on.

        `note` returns a line to show above everything else; events up to `after` are left out. Lines name
        their job once there are several, or always if `named`.
        """
        from slacktide.app.journal.live_status import Standings
        from slacktide.report.live.lines import EventLines

        self._controller, self._jobs = controller, list(jobs)
        self._screen, self._note, self._shown_note = screen, note, ""
        self._standings = Standings(controller.engine)
        self._seq, self._began_seq = after, controller.state.seq
        self._lines_of = EventLines(named=named or len(self._jobs) > 1)
        for job, began_hours in controller.began().items():
            self._lines_of.know(job, began_hours)

    def __call__(self, now_hours: float) -> None:
        """Print new events, and draw the state of the jobs."""
        self._print_news()
        over = self._controller.idle
        self._screen.draw(lambda lines: self._picture(lines, now_hours), now=over)

    def _print_news(self) -> None:
        lines = [self._line(record.seq, record.event) for record in self._controller.news(self._seq)]
        news = [line for line in lines if line is not None]
        if self._note() != self._shown_note:
            self._shown_note = self._note()
            news.append(f"{'':8}  {self._shown_note}")
        if news:
            self._screen.print_lines(news)

    def _line(self, seq: int, event: Event) -> str | None:
        """Return the line of an event if it is news of a job that is watched."""
        self._seq = seq
        if isinstance(event, Submitted) and seq > self._began_seq:
            self._jobs.append(event.job)
            self._lines_of.named |= len(self._jobs) > 1
        line = self._lines_of.news(event)
        return line if event.job in self._jobs or not event.job else None

    def _picture(self, lines: Sequence[str], now_hours: float) -> RenderableType:
        from slacktide.report.live.view import frame

        found = (self._standings.of(job, now_hours) for job in self._jobs)
        standings = [standing for standing in found if standing is not None]
        return frame(standings, lines, speed=self._controller.clock.speed, note=self._note())


def show_live(controller: Controller, jobs: Sequence[str], stop: StopRequests, *, plain: bool) -> None:
    """Run until all jobs have ended, and show it: on stderr if JSON goes to stdout."""
    from slacktide.report.live.screen import screen_for

    screen = screen_for(sys.stderr if plain else sys.stdout)
    with reporting_stopped_workers("slacktide run --resume"), screen:
        controller.run(
            show=ControllerScreen(controller, jobs, screen, stop.note, after=controller.opened_seq),
            stopping=stop,
            complain=lambda error: screen.print_lines([f"problem, retrying: {error}"]),
        )
