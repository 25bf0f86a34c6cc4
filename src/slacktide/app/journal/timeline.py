"""The course of a job so far: what it held, was offered, paid and did, in few enough points to be drawn."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

from slacktide.app.journal.decision_history import same_decision
from slacktide.journal.events import Decided, Event, Held, Kept, Lived, PaceRevised, Record, Remembered
from slacktide.journal.store.base import Store
from slacktide.results.course import Course, CoursePoint
from slacktide.results.run import Lap

MOST_POINTS = 400  # a picture shows no more; beyond twice as many, every second one is left out
MOST_HAPPENINGS = 200
MOST_JOBS = 64  # courses in memory; the one that was not requested for the longest time is dropped
QUIET = (Lived, Held, Kept, Remembered)  # kinds of events that a picture shows better than a list

REPEATED = (Decided, PaceRevised)  # kinds of events that come in every slot, one after the other


@dataclass(slots=True)
class Timeline:
    """The course of one job and what happened to it, read on event by event."""

    began_hours: float = 0.0
    seq: int = 0  # the last event that was read
    course: Course = field(default_factory=Course)
    happenings: list[Record] = field(default_factory=list)
    """The last events to list, in order; of equal decisions in a row only the newest."""
    _done_gpu_hours: float = 0.0  # work done as of that event; a decision knows what a loss just took

    def apply(self, record: Record) -> None:
        """Take one more event of the job into account."""
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
        same = same_decision(last, event) and (last.ending, last.attempt) == (event.ending, event.attempt)
        return same and not event.moved_from
    return isinstance(last, PaceRevised) and isinstance(event, PaceRevised)


class Timelines:
    """The courses of a journal's jobs, each read on from where it was left."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, Timeline] = OrderedDict()

    def of(self, job: str) -> Timeline:
        """Return the course of a job up to now."""
        course = self._known.setdefault(job, Timeline())
        self._known.move_to_end(job)
        while len(self._known) > MOST_JOBS:
            self._known.popitem(last=False)
        for record in self._store.read(after=course.seq, job=job):
            course.apply(record)
        return course


def drawn(live: Timeline, spot_gpus: int, on_demand_gpus: int, *, over: bool) -> list[CoursePoint]:
    """Return the points to be drawn, the last one where the last stretch ended with what is held since."""
    if live.course.end is None:
        return []
    held = (0, 0) if over else (spot_gpus, on_demand_gpus)
    return [*live.course.points, replace(live.course.end, spot_gpus=held[0], on_demand_gpus=held[1])]
