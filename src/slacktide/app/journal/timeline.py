"""What clients follow of each job of a journal: its course for pictures, and the decisions that explain it.

Both are built event by event, so that each look reads only the events since the last one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from slacktide.journal.events import (
    Decided,
    Ended,
    Event,
    Held,
    Kept,
    Lived,
    PaceRevised,
    Preempted,
    Record,
    Remembered,
    Resumed,
    Stalled,
    WorkerFailed,
)
from slacktide.journal.store.base import Store
from slacktide.report.text.sentences.why import NO_NEW_DECISION, rule_and_holding
from slacktide.results.course import Course, CoursePoint
from slacktide.results.run import Lap

MOST_POINTS = 400  # a picture shows no more; beyond twice as many, every second one is left out
MOST_HAPPENINGS = 200
QUIET = (Lived, Held, Kept, Remembered)  # not listed: a picture shows them better
REPEATED = (Decided, PaceRevised)  # kinds of events that come in every slot, one after the other
ALWAYS_KEPT = (Preempted, Resumed, WorkerFailed, Stalled, Ended)  # what an explanation needs in any case
MOST_TIMELINES, MOST_HISTORIES = 64, 256  # in memory


@dataclass(slots=True)
class Timeline:
    """The course of one job and what happened to it, built event by event."""

    began_hours: float = 0.0
    seq: int = 0  # the last event that was read
    course: Course = field(default_factory=Course)
    happenings: list[Record] = field(default_factory=list)
    """The last events to list, in order; of equal decisions in a row only the newest."""
    _done_gpu_hours: float = 0.0  # as of that event; a decision already knows what a loss took

    def apply(self, record: Record) -> None:
        event = record.event
        if not self.seq:
            self.began_hours = event.at_hours
        self.seq = record.seq
        if isinstance(event, Decided):
            self._done_gpu_hours = event.state.progress_gpu_hours
        if isinstance(event, Lived):
            self._lived(event)
        if not isinstance(event, QUIET):
            self._happened(record)

    def _lived(self, event: Lived) -> None:
        before, self._done_gpu_hours = self._done_gpu_hours, event.state.progress_gpu_hours
        stretch = event.priced.stretch
        own = stretch._replace(
            from_hours=stretch.from_hours - self.began_hours, to_hours=stretch.to_hours - self.began_hours
        )
        self.course.live(Lap(event.priced._replace(stretch=own), before, self._done_gpu_hours))
        if len(self.course.points) > 2 * MOST_POINTS:
            self.course.points = self.course.points[::2]

    def _happened(self, record: Record) -> None:
        for place in range(len(self.happenings) - 1, max(-1, len(self.happenings) - 3), -1):
            before = self.happenings[place].event
            if _is_repeated(before, record.event):
                del self.happenings[place]
            if type(before) is type(record.event) or not isinstance(before, REPEATED):
                break
        self.happenings.append(record)
        del self.happenings[:-MOST_HAPPENINGS]


def _is_repeated(last: Event, event: Event) -> bool:
    if isinstance(last, Decided) and isinstance(event, Decided):
        same = rule_and_holding(last) == rule_and_holding(event) and (last.ending, last.attempt) == (
            event.ending,
            event.attempt,
        )
        return same and not event.moved_from
    return isinstance(last, PaceRevised) and isinstance(event, PaceRevised)


def course_points(
    timeline: Timeline, spot_gpus: int, on_demand_gpus: int, *, over: bool
) -> list[CoursePoint]:
    """Return the points to draw; the last one is at the end of the last stretch, with what is held since."""
    if timeline.course.end is None:
        return []
    held = (0, 0) if over else (spot_gpus, on_demand_gpus)
    return [*timeline.course.points, replace(timeline.course.end, spot_gpus=held[0], on_demand_gpus=held[1])]


class DecisionHistory:
    """The few events of a job from which its explanation comes out the same as from all of them."""

    def __init__(self) -> None:
        self.seq = 0
        """The last event that was read."""
        self._kept: dict[int, Event] = {}
        self._decisions: list[tuple[int, Decided]] = []

    def apply(self, record: Record) -> None:
        event = record.event
        if not self.seq or isinstance(event, ALWAYS_KEPT):
            self._kept[record.seq] = event
        self.seq = record.seq
        if isinstance(event, Decided) and event.ending is None:
            self._decisions = _needed([*self._decisions, (record.seq, event)])
            if event.moved_from:
                self._kept[record.seq] = event

    def events(self) -> list[Event]:
        events = {**self._kept, **dict(self._decisions)}
        return [events[seq] for seq in sorted(events)]


def _needed(decisions: list[tuple[int, Decided]]) -> list[tuple[int, Decided]]:
    """Return the first and last of the newest equal decisions, the one before these, and the last of all.

    After the equal ones come only decisions that no policy made.
    """
    end = len(decisions)
    while end and decisions[end - 1][1].why == NO_NEW_DECISION:
        end -= 1
    begin = end
    while begin and rule_and_holding(decisions[begin - 1][1]) == rule_and_holding(decisions[end - 1][1]):
        begin -= 1
    places = {begin - 1, begin, end - 1, len(decisions) - 1}
    return [decision for place, decision in enumerate(decisions) if place in places]


Followed = TypeVar("Followed", bound=Timeline | DecisionHistory)


class OfEachJob(Generic[Followed]):
    """The timelines or histories of a journal's jobs in memory; each look reads only new events of its job.

    At most `most` are kept: then the one that was not requested for the longest time is dropped.
    """

    def __init__(self, store: Store, begin: Callable[[], Followed], most: int) -> None:
        self._store, self._begin, self._most = store, begin, most
        self._known: OrderedDict[str, Followed] = OrderedDict()

    def of(self, job: str) -> Followed:
        found = self._known.setdefault(job, self._begin())
        self._known.move_to_end(job)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        for record in self._store.read(after=found.seq, job=job):
            found.apply(record)
        return found
