"""The state of all jobs of a journal, folded from its events and nothing else.

The same events always give the same state, so a new controller can go on where another one died. Only
`JournalState.apply` changes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.core.errors import InputError
from slacktide.journal import events
from slacktide.journal.events import Decided, Event, Lived, Preempted, Record, Submitted
from slacktide.journal.state.fleet_record import FleetRecord, key_of
from slacktide.journal.state.job_record import (
    BEING_STOPPED,
    NOTHING,
    UNSEEN_SLOT,
    Begun,
    Holding,
    JobRecord,
    apply,
    without_gpus,
)
from slacktide.journal.state.jobs import Jobs
from slacktide.journal.state.tickets import Tickets
from slacktide.physics.ledger import StretchSums


class RequestAnswer(NamedTuple):
    """What became of a request: a job, or a refusal."""

    job: str = ""  # the job's id; empty when it was refused
    why: str = ""
    exit_code: int = 0  # what kind of refusal it is; 0 when it was accepted


@dataclass(slots=True, eq=False)
class RequestAnswers(Mapping[str, RequestAnswer]):
    """What became of every request, by its key: the same key gets the same answer for ever."""

    taken_in: dict[str, str] = field(default_factory=dict)
    """The ids of the jobs that requests became; nothing else, because there are as many as jobs."""
    refused: dict[str, RequestAnswer] = field(default_factory=dict)

    def give(self, key: str, answer: RequestAnswer) -> None:
        """Note what became of a request; the first answer counts."""
        if key in self:
            return
        if answer.job:
            self.taken_in[sys.intern(key)] = sys.intern(answer.job)
        else:
            self.refused[key] = answer

    def __len__(self) -> int:
        return len(self.taken_in) + len(self.refused)

    def __iter__(self) -> Iterator[str]:
        yield from self.taken_in
        yield from self.refused

    def __contains__(self, key: object) -> bool:
        return key in self.taken_in or key in self.refused

    def __getitem__(self, key: str) -> RequestAnswer:
        return RequestAnswer(job=self.taken_in[key]) if key in self.taken_in else self.refused[key]


@dataclass(slots=True)
class Requests:
    """All requests of a journal, by their keys."""

    waiting: dict[str, events.SubmissionAsked] = field(default_factory=dict)
    """Those without an answer, in the order they came."""
    answers: RequestAnswers = field(default_factory=RequestAnswers)

    def apply(self, event: Event) -> None:
        """Apply an event; of two requests with one key the first one counts."""
        match event:
            case events.SubmissionAsked() if event.key not in self.answers:
                self.waiting.setdefault(event.key, event)
            case events.SubmissionRefused():
                self._answered(event.key, RequestAnswer(why=event.why, exit_code=event.exit_code))
            case Submitted() if event.key:
                self._answered(event.key, RequestAnswer(job=event.job))

    def _answered(self, key: str, answer: RequestAnswer) -> None:
        self.waiting.pop(key, None)
        self.answers.give(key, answer)


class PoolNews(NamedTuple):
    """The last loss and last refusal of spot in one pool, on the market's clock; None if there was none."""

    taken_hours: float | None = None
    taken_gpus: int = 0  # how many spot GPUs the market took back then
    refused_hours: float | None = None
    refused_gpus: int = 0  # how many spot GPUs were wanted then; there were fewer


def note_pool(news: dict[str, PoolNews], event: Decided | Preempted, pool: str) -> None:
    """Add an event of a job that was in this pool to the news."""
    match event:
        case Preempted(actor="market") if event.spot_left < event.spot_before:
            taken = event.spot_before - event.spot_left
            before = news.get(pool, PoolNews())
            news[pool] = before._replace(taken_hours=event.at_hours, taken_gpus=taken)
        case Decided() if event.wanted_spot_gpus > 0 and _is_refused(event):
            pool, refused = event.wanted_pool or event.pool, event.wanted_spot_gpus
            before = news.get(pool, PoolNews())
            news[pool] = before._replace(refused_hours=event.at_hours, refused_gpus=refused)


def _is_refused(event: Decided) -> bool:
    """Whether the spot of the first wish was not available; missing on-demand GPUs do not count."""
    if event.missed:
        return 0 not in event.unstocked
    return event.wanted_spot_gpus > event.spot_gpus


@dataclass(slots=True)
class EndedSums:
    """How many jobs ended how, and what they cost."""

    states: dict[str, int] = field(default_factory=dict)  # how many ended in each state
    pools: dict[str, StretchSums] = field(default_factory=dict)
    """What they cost, by the pool in which they were submitted."""

    def add(self, record: JobRecord) -> None:
        """Count a job that has just ended."""
        self.states[record.status] = self.states.get(record.status, 0) + 1
        pool = record.submitted.pool
        self.pools[pool] = self.pools.get(pool, StretchSums()).plus(record.money.bill)


@dataclass(slots=True)
class JournalState:
    """Every job of a journal, and its clock."""

    jobs: Jobs = field(default_factory=Jobs)
    id: str = ""  # the journal's own name; empty in older journals
    clock: events.ClockSet | None = None
    anchor: events.ClockAnchored | None = None  # the last event that says what time the clock has
    feed_trouble: str = ""  # what is wrong with the market's feed; empty when nothing is
    site: events.SiteOpened | None = None
    """The market of all jobs, from the first job on this clock on; none in older journals."""
    now_hours: float = 0.0  # the latest time that any event names
    controller: events.Opened | None = None
    backend: str = "local"  # the back end that the last controller ran its jobs on
    machines: str = ""  # the machines file that the last controller rented by; empty: it rented none
    requests: Requests = field(default_factory=Requests)
    """The submissions that were requested, and their answers."""
    seq: int = 0
    unended: tuple[str, ...] = ()  # the jobs that have not ended, in the order they came
    unlearned: tuple[str, ...] = ()
    """The jobs that have ended and from which the learner has not learned yet."""
    ended: EndedSums = field(default_factory=EndedSums)  # what all jobs that have ended came to
    fleets: dict[str, FleetRecord] = field(default_factory=dict)  # the fleets of this clock, by their names
    news: dict[str, PoolNews] = field(default_factory=dict)  # by pool, on this clock
    tickets: Tickets = field(default_factory=Tickets)  # the machines that are rented, which outlive the clock

    def apply(self, record: Record) -> None:
        """Apply one more event; they must come in the journal's order."""
        if record.seq <= self.seq:
            raise InputError(f"events must come in order, got {record.seq} after {self.seq}")
        self.seq = record.seq
        event = record.event
        if isinstance(event, events.ClockSet):
            self.clock, self.now_hours, self.site, self.fleets = event, event.at_hours, None, {}
            self.anchor, self.feed_trouble, self.news = None, "", {}
            self.tickets.set_clock(event.at_hours)
        self.now_hours = max(self.now_hours, event.at_hours)
        match event:
            case Submitted():
                self.requests.apply(event)
                self._submitted(event)
            case _ if event.job and event.job in self.jobs:  # most events are of jobs
                self._of_job(self.jobs.opened(event.job), event)
            case events.SubmissionAsked() | events.SubmissionRefused():
                self.requests.apply(event)
            case events.Opened() | events.Closed():
                self._in_charge(event)
            case events.JournalMade():
                self.id = self.id or event.id
            case events.ClockAnchored():
                self.anchor = event
            case events.FeedTroubled():
                self.feed_trouble = event.why
            case events.SiteOpened():
                self.site = event
            case events.Rented() | events.Joined() | events.Returned() | events.Leaked() | events.Reclaimed():
                self.tickets.apply(event)
            case events.ClusterSized() | events.Kept() | events.Remembered():
                if event.fleet in self.fleets:  # a reader of one job's events knows no fleets
                    self.fleets[event.fleet].apply(self.seq, event)

    def _in_charge(self, event: events.Opened | events.Closed) -> None:
        self.controller = None
        if isinstance(event, events.Opened):
            self.controller, self.backend, self.machines = event, event.backend, event.machines
        for record in self.active:
            record.requests.released = False

    def _submitted(self, event: Submitted) -> None:
        record = self.jobs.add(JobRecord.of(event))
        # Withdrawn while it was being accepted: the journal's order decides.
        record.requests.cancelled = bool(event.key) and not self.requests.answers[event.key].job
        self.unended += (event.job,)
        if event.fleet:
            self._joined(record, event)

    def _joined(self, record: JobRecord, event: Submitted) -> None:
        fleet = self.fleets.setdefault(key_of(event), FleetRecord.of(event, self.seq - 1))
        fleet.number(record)
        fleet.came, fleet.of_class[event.fleet_class] = fleet.came + 1, record.number_of_class + 1
        fleet.present += (event.job,)

    def _of_job(self, record: JobRecord, event: Event) -> None:
        was_active, fleet = record.active, self.fleets.get(record.fleet)
        match event:
            case Decided() | Preempted():
                order = record.holding.order
                note_pool(self.news, event, record.submitted.pool if order is None else order.pool)
        apply(record, event)
        match event:
            case Lived() if fleet is not None:
                fleet.apply(self.seq, event)
            case events.Learned():
                self.unlearned = _without(self.unlearned, event.job)
            case events.Ended() if was_active:
                self._ended(record, fleet)
        if not record.active:
            self.jobs.put_away(record.job)

    def _ended(self, record: JobRecord, fleet: FleetRecord | None) -> None:
        self.unended = _without(self.unended, record.job)
        self.ended.add(record)
        if record.submitted.learning and not record.progress.learned:
            self.unlearned += (record.job,)
        if fleet is not None:
            fleet.present = _without(fleet.present, record.job)

    @property
    def active(self) -> list[JobRecord]:
        """The jobs that have not ended, in the order they came."""
        return [self.jobs[job] for job in self.unended]


def _without(jobs: tuple[str, ...], gone: str) -> tuple[str, ...]:
    return tuple(job for job in jobs if job != gone)


__all__ = [
    "BEING_STOPPED",
    "NOTHING",
    "UNSEEN_SLOT",
    "Begun",
    "Holding",
    "JobRecord",
    "JournalState",
    "without_gpus",
]
