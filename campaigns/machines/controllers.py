"""One controller after another over one journal, each killed at a write, a call or between two steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from campaigns.finding import Finding
from campaigns.machines.network import HOUR_S, Network, SimulatedLink
from slacktide.backends.base import BackendPlace
from slacktide.backends.machines.backend import MachineBackend, NodeAccess
from slacktide.engine.engine import Engine, EngineMachineLog
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Event, Record, Rented, Submitted
from slacktide.journal.state.tickets import MachineKind
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.providers.base import Machine, Renter, Renting, Rules, Unreachable
from slacktide.testing.fake_provider import EPOCH, Fake


class Killed(BaseException):
    """The controller is killed here."""


@dataclass(slots=True)
class Fate:
    """Decides when controllers die."""

    rng: random.Random
    write_share: float = 0.0
    """The chance to die at a write, and at a call of the provider: half before it, half after."""
    step_share: float = 0.0
    dead: bool = False
    """Whether a controller was killed in a thread of its own: nothing that it still does counts."""
    kills_at_writes: int = 0
    kills_at_calls: int = 0

    def strikes(self) -> bool:
        """Say whether now is the time."""
        return self.rng.random() < self.write_share / 2.0


class Journal(SqliteStore):
    """A journal in a real file, whose writer may be killed before or after any write."""

    def __init__(self, path: Path, fate: Fate, clock: Callable[[], datetime]) -> None:
        super().__init__(path, clock=clock)
        self._fate = fate
        self.rented: set[str] = set()
        """The tickets that were ever written."""

    def append(self, events: Iterable[Event]) -> list[Record]:
        """Write, or be killed."""
        listed = list(events)
        if self._fate.dead or (listed and self._fate.strikes()):
            self._fate.kills_at_writes += not self._fate.dead
            raise Killed
        records = super().append(listed)
        self.rented |= {event.ticket for event in listed if isinstance(event, Rented)}
        if listed and self._fate.strikes():
            self._fate.kills_at_writes += 1
            raise Killed
        return records


class Struck:
    """A provider whose caller may be killed before it asks, or before it hears the answer."""

    def __init__(self, inner: Fake, journal: Journal, fate: Fate) -> None:
        self._inner, self._journal, self._fate = inner, journal, fate

    def _strike(self) -> None:
        if self._fate.dead or self._fate.strikes():
            self._fate.kills_at_calls += not self._fate.dead
            self._fate.dead = True
            raise Unreachable("the controller was killed")

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Rent with a ticket, which must have been written down."""
        self._strike()
        if ticket not in self._journal.rented:
            raise Finding(f"ticket {ticket} was used before it was written down")
        self._inner.rent(ticket, spec)
        self._strike()

    def end(self, ids: Sequence[str]) -> None:
        """End machines."""
        self._strike()
        self._inner.end(ids)
        self._strike()

    def machines(self) -> Sequence[Machine]:
        """List machines."""
        self._strike()
        return self._inner.machines()


@dataclass(slots=True)
class OnNetwork(MachineBackend):
    """A back end on a link that is given."""

    given: NodeAccess

    def node_access(self) -> NodeAccess:
        """Return it."""
        return self.given


class Controller:
    """One life of a controller, which recovers what those before it left."""

    def __init__(
        self, folder: Path, owner: str, network: Network, fate: Fate, rules: Rules,
        specs: tuple[MachineKind, ...], lease_s: float, open_job: Callable[[Submitted], JobContext],
    ) -> None:  # fmt: skip
        self._network, fate.dead = network, False
        now = network.now
        self.store = Journal(folder / "journal.db", fate, lambda: EPOCH + timedelta(seconds=now()))
        with_read = {record.event.ticket for record in self.store.read() if isinstance(record.event, Rented)}
        self.store.rented = with_read
        provider = Struck(Fake(Renter(owner=owner), cloud=network.cloud), self.store, fate)
        place = BackendPlace(
            folder=folder / "runs", owner=owner, now_hours=lambda: now() / HOUR_S,
            diary=EngineMachineLog(lambda: self.engine),
            renting=lambda head, token: Renting(provider, rules, specs),
        )  # fmt: skip
        link = SimulatedLink(network)
        self.backend = OnNetwork(place, NodeAccess(link, lease_s, now=now, threads=False))
        self.engine = Engine(self.store, self.backend, open_job=open_job)

    def step(self) -> None:
        """Do all that is due now."""
        self.backend.machine_workers.machines.loop.turn()
        self.engine.step(self._network.now() / HOUR_S)

    def end(self) -> None:
        """Let go of threads and files, as the end of a process does."""
        self.backend.close()
        self.store.close()
