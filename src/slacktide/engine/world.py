"""All that is known of the jobs of a journal: a fold over its events, and nothing else.

Whoever reads the same events gets the same world, so a controller that died is replaced by one
that reads on. Only `World.apply` changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slacktide.backend.base import Order
from slacktide.errors import InputError
from slacktide.events import (
    CancellationAsked,
    ClockSet,
    Closed,
    Decided,
    Ended,
    Ending,
    Event,
    Health,
    HealthChanged,
    Learned,
    Lived,
    Opened,
    Preempted,
    PreemptionAsked,
    Record,
    Released,
    Restarted,
    Stalled,
    Submitted,
    WorkerFailed,
)
from slacktide.types import JobState


@dataclass(slots=True)
class Track:
    """One job as far as the journal tells it."""

    job: str
    submitted: Submitted
    began_hours: float
    """When its slot 0 began, on the journal's clock."""
    state: JobState = field(default_factory=JobState)
    order: Order | None = None
    """What it is to hold now; None before the first decision and after all was let go."""
    ending: Ending | None = None
    memory: tuple[float, ...] = ()
    attempt: int = 0
    health: Health = "on-time"
    ended: Ended | None = None
    released: bool = False
    cancel_asked: bool = False
    preemption_asked: PreemptionAsked | None = None
    spot_usd: float = 0.0
    on_demand_usd: float = 0.0
    spot_gpu_hours: float = 0.0
    on_demand_gpu_hours: float = 0.0
    paid_until_hours: float = 0.0
    """The bill is complete up to here."""
    preemptions: int = 0
    lost_gpu_hours: float = 0.0
    pause_hours: float = 0.0
    failures: int = 0
    failures_in_row: int = 0
    safe_at_failure_gpu_hours: float = -1.0
    starts: int = 0
    """Sets of workers that were started."""
    learned: bool = False
    decisions: int = 0

    @property
    def active(self) -> bool:
        """Whether anything can still happen to it."""
        return self.ended is None

    @property
    def restarts(self) -> int:
        """How often its workers were started again."""
        return max(0, self.starts - 1)

    @property
    def status(self) -> str:
        """The state in the words users see."""
        if self.ended is not None:
            return self.ended.status
        if self.ending is not None:
            return "cancelling"
        if self.order is None or self.order.gpus == 0:
            return "pending" if self.starts == 0 else "recovering"
        return "starting" if self.state.pause_hours > 0 and self.state.progress_gpu_hours <= 0 else "running"


@dataclass(slots=True)
class World:
    """Every job of a journal, and its clock."""

    jobs: dict[str, Track] = field(default_factory=dict)
    clock: ClockSet | None = None
    now_hours: float = 0.0
    """The latest time that any event names."""
    controller: Opened | None = None
    seq: int = 0

    def apply(self, record: Record) -> None:
        """Take one more event into account; they must come in the journal's order."""
        if record.seq <= self.seq:
            raise InputError(f"events must come in order, got {record.seq} after {self.seq}")
        self.seq = record.seq
        event = record.event
        if isinstance(event, ClockSet):
            self.clock, self.now_hours = event, event.at_hours
        self.now_hours = max(self.now_hours, event.at_hours)
        if isinstance(event, Opened | Closed):
            self.controller = event if isinstance(event, Opened) else None
            for track in self.jobs.values():
                track.released = False
        elif isinstance(event, Submitted):
            self.jobs[event.job] = Track(event.job, event, event.at_hours)
        elif event.job in self.jobs:
            _tell(self.jobs[event.job], event)

    @property
    def active(self) -> list[Track]:
        """The jobs that have not ended, in the order they came."""
        return [track for track in self.jobs.values() if track.active]


def _tell(track: Track, event: Event) -> None:
    match event:
        case Decided():
            _decided(track, event)
        case Lived():
            _lived(track, event)
        case Preempted():
            track.preemptions += event.spot_left < event.spot_before
            track.lost_gpu_hours += event.lost_gpu_hours
            track.preemption_asked = None
        case WorkerFailed() | Stalled():
            _failed(track, event.checkpointed_gpu_hours)
        case Restarted():
            assert track.order is not None
            track.attempt = event.attempt
            track.order = track.order._replace(attempt=event.attempt, delay_s=event.delay_s)
            track.starts += 1
        case PreemptionAsked():
            track.preemption_asked = event
        case CancellationAsked():
            track.cancel_asked = True
        case HealthChanged():
            track.health = event.health
        case Released():
            track.order, track.ending, track.released = None, None, True
        case Ended():
            track.ended, track.order, track.ending = event, None, None
        case Learned():
            track.learned = True
        case _:
            pass


def _decided(track: Track, event: Decided) -> None:
    if event.attempt != track.attempt and event.spot_gpus + event.on_demand_gpus > 0:
        track.starts += 1
    track.attempt = event.attempt
    track.memory = event.memory
    track.ending = event.ending
    track.state = event.state
    track.decisions += 1
    track.order = Order(
        event.job,
        event.attempt,
        event.slot,
        event.from_hours,
        event.quote,
        event.state,
        event.spot_gpus,
        event.on_demand_gpus,
        ending=event.ending is not None,
    )
    if event.from_hours > track.paid_until_hours and event.state.gpus == 0:
        track.paid_until_hours = event.from_hours  # nothing was held, so nothing is owed for the time between


def _lived(track: Track, event: Lived) -> None:
    hours = event.to_hours - event.from_hours
    track.state = event.state
    track.spot_usd += event.spot_usd
    track.on_demand_usd += event.on_demand_usd
    track.spot_gpu_hours += event.spot_gpus * hours
    track.on_demand_gpu_hours += event.on_demand_gpus * hours
    track.pause_hours += event.pause_hours
    track.paid_until_hours = event.to_hours


def _failed(track: Track, safe_gpu_hours: float) -> None:
    moved = safe_gpu_hours > track.safe_at_failure_gpu_hours + 1e-9
    track.failures += 1
    track.failures_in_row = 1 if moved else track.failures_in_row + 1
    track.safe_at_failure_gpu_hours = safe_gpu_hours
