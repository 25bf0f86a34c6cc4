"""The course of a job so far: what it held, was offered, paid and did, in few enough points to be drawn."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

from slacktide.app.stories import same_decision
from slacktide.events import Decided, Event, Held, Kept, Lived, PaceRevised, Record, Remembered
from slacktide.store.base import Store

MOST_POINTS = 400
"""A picture shows no more; beyond twice as many, every second one is left out."""
MOST_HAPPENINGS = 200
MOST_JOBS = 64
"""Courses that are remembered; the one that was not asked for the longest gives way."""
QUIET = (Lived, Held, Kept, Remembered)
"""Kinds of events that a picture shows better than words."""

REPEATED = (Decided, PaceRevised)
"""Kinds of events that come again in every slot, one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoursePoint:
    """What a job held from an hour on, and what it had done and paid until then."""

    hours: float
    """Since the job began."""
    pool: str
    spot_gpus: int
    on_demand_gpus: int
    offered_spot_gpus: int
    """Spot GPUs obtainable, those held included."""
    spot_usd_per_gpu_hour: float
    on_demand_usd_per_gpu_hour: float
    progress_gpu_hours: float
    cost_usd: float


@dataclass(slots=True)
class Course:
    """Points and happenings of one job, read on event by event."""

    began_hours: float = 0.0
    seq: int = 0
    """The last event that was heard."""
    points: list[CoursePoint] = field(default_factory=list)
    end: CoursePoint | None = None
    """Where the last stretch ended; it holds nothing, as far as is known here."""
    happenings: list[Record] = field(default_factory=list)
    """The last ones in words' order; of a row of equal decisions the newest."""

    def hear(self, record: Record) -> None:
        """Take one more event of the job into account."""
        event = record.event
        if not self.seq:
            self.began_hours = event.at_hours
        self.seq = record.seq
        if isinstance(event, Lived):
            self._lived(event)
        if not isinstance(event, QUIET):
            self._happened(record)

    def _lived(self, event: Lived) -> None:
        stretch, before, quote = event.priced.stretch, self.end, event.priced.stretch.quote
        from_hours, to_hours = stretch.from_hours - self.began_hours, stretch.to_hours - self.began_hours
        begun = CoursePoint(
            hours=from_hours,
            pool=stretch.pool,
            spot_gpus=stretch.spot_gpus,
            on_demand_gpus=stretch.on_demand_gpus,
            offered_spot_gpus=quote.spot_gpus,
            spot_usd_per_gpu_hour=quote.spot_usd_per_gpu_hour,
            on_demand_usd_per_gpu_hour=quote.on_demand_usd_per_gpu_hour,
            progress_gpu_hours=0.0 if before is None else before.progress_gpu_hours,
            cost_usd=0.0 if before is None else before.cost_usd,
        )
        if before is not None and from_hours > before.hours:  # nobody was there in between
            self.points.append(before)
        self.points.append(begun)
        if len(self.points) > 2 * MOST_POINTS:
            self.points = self.points[::2]
        self.end = replace(
            begun,
            hours=to_hours,
            spot_gpus=0,
            on_demand_gpus=0,
            progress_gpu_hours=event.state.progress_gpu_hours,
            cost_usd=begun.cost_usd + event.priced.charge.usd,
        )

    def _happened(self, record: Record) -> None:
        for place in range(len(self.happenings) - 1, max(-1, len(self.happenings) - 3), -1):
            before = self.happenings[place].event
            if _is_said_again(before, record.event):
                del self.happenings[place]
            if type(before) is type(record.event) or not isinstance(before, REPEATED):
                break
        self.happenings.append(record)
        del self.happenings[:-MOST_HAPPENINGS]


def _is_said_again(last: Event, event: Event) -> bool:
    if isinstance(last, Decided) and isinstance(event, Decided):
        same = same_decision(last, event) and (last.ending, last.attempt) == (event.ending, event.attempt)
        return same and not event.moved_from
    return isinstance(last, PaceRevised) and isinstance(event, PaceRevised)


class Courses:
    """The courses of a journal's jobs, each read on from where it was left."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, Course] = OrderedDict()

    def of(self, job: str) -> Course:
        """Return the course of a job up to now."""
        course = self._known.setdefault(job, Course())
        self._known.move_to_end(job)
        while len(self._known) > MOST_JOBS:
            self._known.popitem(last=False)
        for record in self._store.read(after=course.seq, job=job):
            course.hear(record)
        return course


def drawn(course: Course, spot_gpus: int, on_demand_gpus: int, *, over: bool) -> list[CoursePoint]:
    """Return the points to be drawn, the last one where the last stretch ended with what is held since."""
    if course.end is None:
        return []
    held = (0, 0) if over else (spot_gpus, on_demand_gpus)
    return [*course.points, replace(course.end, spot_gpus=held[0], on_demand_gpus=held[1])]
