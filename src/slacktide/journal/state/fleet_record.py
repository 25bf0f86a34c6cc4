"""One fleet of a journal, folded from its events: its jobs, its machines, what its allocator knows."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from slacktide.budget.allowance import Spending
from slacktide.budget.cluster import Cluster
from slacktide.core.types import TIME_TOLERANCE_HOURS, JsonText
from slacktide.journal.events import ClusterSized, Kept, Lived, Remembered, Submitted
from slacktide.journal.state.job_record import JobRecord


class HeldSpan(NamedTuple):
    """GPUs that a job held from one time to another."""

    from_hours: float
    to_hours: float
    gpus: int  # on demand
    spot_gpus: int = 0
    pool: str = ""


@dataclass(slots=True)
class FleetRecord:
    """The jobs that one allocator decides about; all hours are on the market's clock."""

    key: str
    first: Submitted  # its first job, whose submission names everything about the fleet
    began_hours: float  # when that was submitted: an allocator counts from there
    present: tuple[str, ...] = ()  # its jobs that have not ended, in the order they came
    came: int = 0  # how many jobs there ever were
    of_class: dict[str, int] = field(default_factory=dict)  # how many there ever were of each class
    spent_gpu_hours: float = 0.0  # GPU-hours of all stretches that are over, the machines' own included
    memory: JsonText = ""  # what its allocator wrote down last, as JSON; empty before the first time
    memory_seq: int = 0  # the last event that this memory includes
    reserved_usd: float | None = None  # what its allocator keeps for promised deadlines; None: unknown
    usd_per_job_hour: float | None = None
    """What an hour of a job's waiting is worth to it; None if it does not say."""
    decided_hours: float = -math.inf
    """When its allocator last wrote down what it knows, so when it decided last."""
    decided_about: tuple[str, ...] | None = None  # the jobs that were present then
    cluster: Cluster = field(default_factory=lambda: Cluster(1, 0.0, 0.0))
    accounted_hours: float = 0.0  # up to when machines that no job used are accounted for
    recent: tuple[HeldSpan, ...] = ()
    """What its jobs held since then, or in the last slot, in stretches that are over."""
    spending: Spending = field(default_factory=Spending)
    """What the stretches of its jobs cost, by when they ended."""

    @classmethod
    def of(cls, first: Submitted, memory_seq: int) -> Self:
        """Return a fleet that begins with a job; all its events come after `memory_seq`."""
        hours = first.at_hours
        return cls(key_of(first), first, hours, memory_seq=memory_seq, accounted_hours=hours)

    def number(self, job: JobRecord) -> None:
        """Make a job the next one of the fleet."""
        job.fleet, job.number = self.key, self.came
        job.number_of_class = self.of_class.get(job.submitted.fleet_class, 0)

    @property
    def origin_hours(self) -> float:
        """When the slot of the market began in which its first job came: the clock of a fleet on a market."""
        origin = self.first.origin_hours
        return self.began_hours if origin is None else origin

    def apply(self, seq: int, event: Lived | Kept | ClusterSized | Remembered) -> None:
        """Apply an event of this fleet."""
        match event:
            case Lived():
                self._lived(event)
            case Kept():
                self.spent_gpu_hours += event.priced.stretch.gpus * event.priced.stretch.held_hours
                self._accounted(event.priced.stretch.to_hours)
            case ClusterSized():
                self._accounted(event.at_hours)
                self.cluster.take_form(event.node_gpus, event.provisioning_hours, event.idle_grace_hours)
                self.cluster.resize(event.nodes, event.at_hours)
            case Remembered():
                self.memory, self.memory_seq = event.memory or self.memory, seq
                self.reserved_usd, self.usd_per_job_hour = event.reserved_usd, event.usd_per_job_hour
                self.decided_hours, self.decided_about = event.at_hours, self.settled_at(event.at_hours)

    def _lived(self, event: Lived) -> None:
        stretch = event.priced.stretch
        self.spent_gpu_hours += stretch.gpus * stretch.held_hours
        self.spending.add(stretch.to_hours, event.priced.charge.usd)
        if stretch.gpus and stretch.to_hours > self.accounted_hours:
            begin, end = stretch.from_hours, stretch.to_hours
            span = HeldSpan(begin, end, stretch.on_demand_gpus, stretch.spot_gpus, stretch.pool)
            self.recent = (*self._still_needed(end), span)

    def _still_needed(self, now_hours: float) -> tuple[HeldSpan, ...]:
        """Return the spans that may still be looked up: with machines, all since these were accounted for.

        Without machines, only those that reach into the last slot.
        """
        if self.cluster.rented or self.accounted_hours > self.began_hours:
            return self.recent
        since = now_hours - self.first.slot_hours
        return tuple(span for span in self.recent if span.to_hours > since)

    def spans_after(self, hours: float) -> list[HeldSpan]:
        """Return what was held at this moment in stretches that are over by now.

        A slot's border is decided about when a step sees it, and workers may have gone in between.
        """
        after = hours + TIME_TOLERANCE_HOURS
        return [span for span in self.recent if span.from_hours <= after < span.to_hours]

    def held_after(self, hours: float) -> int:
        """Return the on-demand GPUs that were held at this moment in stretches that are over by now."""
        return sum(span.gpus for span in self.spans_after(hours))

    def settled_at(self, hours: float) -> tuple[str, ...] | None:
        """Return the jobs for which a decision of this moment still holds; None if GPUs became free since."""
        return None if any(span.gpus + span.spot_gpus for span in self.spans_after(hours)) else self.present

    def _accounted(self, hours: float) -> None:
        self.accounted_hours = max(self.accounted_hours, hours)
        self.cluster.arrive(self.accounted_hours)
        after = self.accounted_hours + TIME_TOLERANCE_HOURS
        self.recent = tuple(span for span in self.recent if span.to_hours > after)


def key_of(submitted: Submitted) -> str:
    """Return the name of the fleet that a job is of: the same for the same file and allocator."""
    return hashlib.sha256(f"{submitted.fleet}\0{submitted.policy}".encode()).hexdigest()[:12]
