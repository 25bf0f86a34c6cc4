"""A live controller on a screen: its news as lines, where its jobs stand as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from slacktide.core.errors import SlacktideError
from slacktide.journal.events import Event, Submitted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slacktide.app.jobs.controller import Controller
    from slacktide.report.live.screen import Screen


@contextmanager
def told_that_workers_are_gone(command: str) -> Iterator[None]:
    """Say on stderr, where a run ends with an error, what became of its workers and how to go on."""
    try:
        yield
    except SlacktideError:
        click.echo(f"the workers were stopped; `{command}` resumes the jobs", err=True)
        raise


class ControllerScreen:
    """Shows a controller on a screen: call it with the time as often as the controller goes round."""

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
        """ControllerScreen these jobs, and those that are submitted from now on.

        `note` says what is to be said above all else; what the journal told up to `after` is left out. Lines
        name their job once there are several, or from the beginning.
        """
        from slacktide.app.journal.live_status import Standings
        from slacktide.report.live.lines import Teller

        self._controller, self._jobs = controller, list(jobs)
        self._screen, self._note, self._said = screen, note, ""
        self._standings = Standings(controller)
        self._seq, self._began_seq = after, controller.world.seq
        self._teller = Teller(named=named or len(self._jobs) > 1)
        for job, began_hours in controller.began().items():
            self._teller.know(job, began_hours)

    def __call__(self, now_hours: float) -> None:
        """Show what is new, and where things stand."""
        self._tell_news()
        over = self._controller.idle
        self._screen.draw(lambda lines: self._picture(lines, now_hours), now=over)

    def _tell_news(self) -> None:
        told = [self._line(record.seq, record.event) for record in self._controller.news(self._seq)]
        news = [line for line in told if line is not None]
        if self._note() != self._said:
            self._said = self._note()
            news.append(f"{'':8}  {self._said}")
        if news:
            self._screen.tell(news)

    def _line(self, seq: int, event: Event) -> str | None:
        """Return the line of an event if it is news of a job that is watched."""
        self._seq = seq
        if isinstance(event, Submitted) and seq > self._began_seq:
            self._jobs.append(event.job)
            self._teller.named |= len(self._jobs) > 1
        line = self._teller.news(event)
        return line if event.job in self._jobs or not event.job else None

    def _picture(self, lines: Sequence[str], now_hours: float) -> RenderableType:
        from slacktide.report.live.view import frame

        found = (self._standings.of(job, now_hours) for job in self._jobs)
        standings = [standing for standing in found if standing is not None]
        return frame(standings, lines, speed=self._controller.clock.speed, note=self._note())
