"""The tickets of rented machines: which are open, folded from a journal's events and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from slacktide.journal.events import Capacity, Joined, Leaked, Reclaimed, Rented, Returned

Fact: TypeAlias = Rented | Joined | Returned | Leaked | Reclaimed
KEPT_HOURS = 1.0
"""How long closed tickets whose machine may still run are remembered: their provider lists it by then."""


class MachineKind(NamedTuple):
    """What is to be rented: spot or on demand, the pool, and the GPUs of one machine."""

    kind: Capacity
    pool: str  # as the market names it; a provider says what its parts mean
    gpus: int


class Ticket(NamedTuple):
    """One machine as the journal explains it; hours are on the clock of the journal's events."""

    id: str
    spec: MachineKind
    usd_per_hour: float
    rented_hours: float
    machine: str = ""  # what its provider calls the machine that joined; empty while none has
    joined_hours: float | None = None
    returned_hours: float | None = None


@dataclass(slots=True)
class Tickets:
    """Which tickets are open, and which were closed so lately that their machine may still be there."""

    open: dict[str, Ticket] = field(default_factory=dict)  # in the order in which they were opened
    closed: dict[str, Ticket] = field(default_factory=dict)
    count: int = 0  # how many were ever opened: the next one has a higher number
    leaked: dict[str, str] = field(default_factory=dict)
    """Machines that were noted as leaked and have not gone since, with the ticket that each carries."""

    def apply(self, fact: Fact) -> None:
        """Apply one more fact."""
        match fact:
            case Rented():
                spec = MachineKind(fact.capacity, fact.pool, fact.gpus)
                self.open[fact.ticket] = Ticket(fact.ticket, spec, fact.usd_per_hour, fact.at_hours)
                self.count += 1
            case Joined() if fact.ticket in self.open:
                ticket = self.open[fact.ticket]
                self.open[fact.ticket] = ticket._replace(machine=fact.machine, joined_hours=fact.at_hours)
            case Returned() if fact.ticket in self.open:
                ticket = self.open.pop(fact.ticket)
                if fact.left:
                    self.closed[fact.ticket] = ticket._replace(returned_hours=fact.at_hours)
                self._forget(fact.at_hours)
            case Leaked():
                self.leaked[fact.machine] = fact.ticket
            case Reclaimed():
                self.leaked.pop(fact.machine, None)

    def set_clock(self, at_hours: float) -> None:
        """Count from this hour on: the clock was set, and hours before that mean nothing on it."""
        for name, ticket in self.open.items():
            joined = None if ticket.joined_hours is None else at_hours
            self.open[name] = ticket._replace(rented_hours=at_hours, joined_hours=joined)
        for name, ticket in self.closed.items():
            self.closed[name] = ticket._replace(returned_hours=at_hours)

    def _forget(self, now_hours: float) -> None:
        for ticket in list(self.closed.values()):
            assert ticket.returned_hours is not None
            if now_hours - ticket.returned_hours > KEPT_HOURS:
                del self.closed[ticket.id]


class MachineLog(Protocol):
    """Where tickets are written down. Only the controller of the journal has one."""

    def note(self, *facts: Fact) -> None:
        """Write facts, all or none; they are on the disk when this returns."""
        ...

    def tickets(self) -> Tickets:
        """Return the tickets as of the last note; the caller must not change them."""
        ...


class MemoryMachineLog:
    """A log that ends with its process: for tests, and for back ends that rent nothing."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._tickets = Tickets()

    def note(self, *facts: Fact) -> None:
        """Keep facts in memory."""
        for fact in facts:
            self.facts.append(fact)
            self._tickets.apply(fact)

    def tickets(self) -> Tickets:
        """Return the tickets as of the last note."""
        return self._tickets
