"""Events as lines of text for terminals and logs: when, who, what and why."""

from __future__ import annotations

import math
from collections.abc import Mapping

from slacktide.journal import events
from slacktide.journal.events import Event
from slacktide.physics.pace import Pace
from slacktide.report import words
from slacktide.report.text.sentences.events import sentence

SILENT = (events.Lived, events.Held, events.Kept, events.Remembered, events.JournalMade)
"""Events after which everything continues as before; `news` leaves them out."""
NOTABLE = math.log(1.05), 0.5
"""How far a pace, and a restart time, must change to be printed again: as logarithm, and as share."""


class EventLines:
    """Writes the events of a journal as one line each, in the journal's order.

    Times are on the clock of the job; where lines name their jobs, on the journal's, which all of them share.
    They never go back: jobs are handled one after the other, so an event may follow a slightly later one, and
    after the clock is set again times continue from the last line. The reason of each job's last decision is
    remembered, so that `news` can leave out decisions that change nothing.
    """

    def __init__(self, *, named: bool = False, began: Mapping[str, float] | None = None) -> None:
        """Set whether each line names its job (`named`), which is needed where there are several.

        `began` has the hours at which jobs began whose submission is not among the events.
        """
        self.named = named
        self._began = dict(began or {})
        self._last: dict[str, str] = {}
        self._paces: dict[str, Pace] = {}
        self._before_hours = 0.0
        self._last_hours = 0.0

    @property
    def _first_hours(self) -> float:
        """When the first job began; events that concern no job count from then."""
        return min(self._began.values(), default=0.0)

    def line(self, event: Event) -> str:
        """Return the line of an event."""
        if isinstance(event, events.Submitted):
            self._began[event.job] = event.at_hours
        name = f"{words.plain(event.job, 24):<14}  " if self.named else ""
        return f"{words.since(self._hours(event)):>8}  {name}{event.actor:<6}  {sentence(event)}"

    def _hours(self, event: Event) -> float:
        """Return the time to print for an event, never one before the last line."""
        if isinstance(event, events.ClockSet):
            self._before_hours = self._last_hours
        # Events from the hours that the clock jumped over come after the jump, at their own times.
        at_hours = event.from_hours if isinstance(event, events.ClockJumped) else event.at_hours
        if self.named:
            hours = self._before_hours + at_hours
        else:
            hours = at_hours - self._began.get(event.job, self._first_hours)
        self._last_hours = max(self._last_hours, hours)
        return self._last_hours

    def news(self, event: Event) -> str | None:
        """Return the line of an event; None when nothing has changed."""
        line = self.line(event)
        if isinstance(event, SILENT):
            return None
        if isinstance(event, events.PaceRevised):
            return line if self._is_notable(event) else None
        if isinstance(event, events.Preempted):
            self._last.pop(event.job, None)  # the next decision is news, even if it changes nothing
        if isinstance(event, events.Decided):
            before, self._last[event.job] = self._last.get(event.job), event.why
            held = event.state.spot_gpus, event.state.on_demand_gpus
            same = held == (event.spot_gpus, event.on_demand_gpus) and event.why == before
            return None if same and event.ending is None else line
        return line

    def _is_notable(self, event: events.PaceRevised) -> bool:
        """Whether a pace differs enough from the one printed last; every slot brings small revisions."""
        now, last = event.pace, self._paces.get(event.job)
        self._paces.setdefault(event.job, now)
        if last is None:
            return True
        restart = abs(now.restart_hours - last.restart_hours) > NOTABLE[1] * last.restart_hours
        pace = (last.hours == 0.0) != (now.hours == 0.0) or abs(now.mean - last.mean) > NOTABLE[0]
        if restart or pace:
            self._paces[event.job] = now
        return restart or pace
