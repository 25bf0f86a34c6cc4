"""The contract of providers, the only code that rents machines: rent one, end some, list an owner's.

A provider keeps no account of its own: which machines are wanted is in the journal, as open tickets. A ticket
is the key that makes a request safe to repeat: the same ticket never gives a second machine.

Below the contract is what the reconciler goes by (`Rules`), is given (`Use`) and returns (`Stock`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from slacktide.core.errors import BackendError, InputError, shown
from slacktide.core.register import Register
from slacktide.journal.events import Capacity
from slacktide.journal.state.tickets import MachineKind

MachineState: TypeAlias = Literal["starting", "up", "ending", "gone"]
INTERRUPTED = "interrupted"
"""What `Machine.why` is when the provider took a machine back."""


class Machine(NamedTuple):
    """A machine as its provider lists it."""

    id: str
    ticket: str
    spec: MachineKind
    state: MachineState
    address: str = ""
    why: str = ""
    """Of an end that was not requested here: INTERRUPTED, or a few other words."""
    notice_s: float | None = None
    """How long it has left, if the provider says so; the machine itself may know sooner."""
    since_utc: datetime | None = None
    """Since when it is paid for, as its provider reports; None if it does not report that."""
    until_utc: datetime | None = None

    @property
    def alive(self) -> bool:
        """Whether it can be used, now or soon."""
        return self.state in ("starting", "up")


class NoCapacity(BackendError):
    """No such machine is available just now; final for this ticket, which will never get one."""


class Spent(BackendError):
    """The machine of this ticket has come and gone; final for it, and says nothing about capacity."""


class Unreachable(BackendError):
    """No answer, or a refusal for now; it may have been done. Try again with the same ticket."""


class Refused(InputError):
    """The provider will not, and trying again will not help: credentials or settings are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renter:
    """What a provider is made with: for whom it rents, and what machines are to join."""

    owner: str = "nobody"
    """The journal's id, which no other journal has; every machine carries it."""
    folder: Path = Path(".")
    """Where it may keep files for this owner."""
    settings_folder: Path = Path(".")
    """The folder to which relative paths in its settings refer."""
    head: str = ""
    """What a machine joins once it is up: an address of the cluster's head; empty: it joins nothing."""
    token: str = ""
    """The file with the token that lets clients into that cluster; empty: as its own variables say."""


class Provider(Protocol):
    """Rents machines. Every call returns within seconds and may be repeated.

    A class that is registered in `providers` is made with a `Renter`, as `renter`, and its settings.
    """

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Make sure that there is, or will be, one machine with this ticket.

        Raises NoCapacity or Spent, which are final for the ticket; Unreachable; Refused.
        """
        ...

    def end(self, ids: Sequence[str]) -> None:
        """End these machines, those that have ended already included; raises Unreachable or Refused."""
        ...

    def machines(self) -> Sequence[Machine]:
        """List all machines of this owner, ended ones for a while longer; may be some seconds out of date.

        Raises Unreachable or Refused.
        """
        ...


@runtime_checkable
class Surveying(Protocol):
    """A provider that finds every owner's machines: what a sweep without a journal needs."""

    def everyones(self) -> Mapping[str, Sequence[Machine]]:
        """List the machines of all owners that have not gone; raises Unreachable or Refused."""
        ...


providers: Register[Provider] = Register(
    "provider",
    packages=("slacktide.providers",),
    entry_points="slacktide.providers",
    verbs=("rent", "end", "machines"),
)


class ListsAllOwners(ABC):
    """Base class of providers that list the machines of all owners at once."""

    __slots__ = ()
    renter: Renter

    @abstractmethod
    def _machines(self) -> Iterable[tuple[str, Machine]]:
        """List all machines, each with its owner."""

    def machines(self) -> Sequence[Machine]:
        """List this owner's machines."""
        return [machine for owner, machine in self._machines() if owner == self.renter.owner]

    def everyones(self) -> Mapping[str, Sequence[Machine]]:
        """List the machines that have not gone, by owner."""
        found: dict[str, list[Machine]] = {}
        for owner, machine in self._machines():
            if machine.state != "gone":
                found.setdefault(owner, []).append(machine)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may be rented, at which price, and how long to wait; hours are on the clock of the steps."""

    usd_per_hour: Mapping[tuple[Capacity, str], float] = field(default_factory=dict)
    """What a machine costs, by kind and pool; one without a price counts as the most expensive."""
    max_machines: float = math.inf
    max_usd_per_hour: float = math.inf
    join_within_hours: float = 0.25
    """A machine that was listed, and is not ready after this long, is given back."""
    listed_within_hours: float = 5.0 / 60.0
    """How late a provider's list may be: before that, nothing is concluded from what is not in it."""
    leaked_after_hours: float = 10.0 / 60.0
    """A machine that no open ticket explains is ended; if it still runs after this long, it has leaked."""
    first_wait_hours: float = 0.5 / 60.0
    longest_wait_hours: float = 10.0 / 60.0
    """The first and the longest wait before trying again what failed or had no capacity."""

    def price(self, spec: MachineKind) -> float:
        """Return what a machine costs in an hour; without a price of its own, the most that any costs."""
        return self.usd_per_hour.get((spec.kind, spec.pool), max(self.usd_per_hour.values(), default=0.0))


class Use(NamedTuple):
    """What is known of the machines in addition to what their provider lists, by their tickets."""

    ready: Collection[str] | None = None
    """Those that have joined; None: a machine is ready when its provider says that it is up."""
    unfit: Mapping[str, str] = {}
    """Those that are to be given back even if they are wanted, and why."""
    busy: Collection[str] = ()
    """Those that are in use and are not given back, however few are wanted."""


class Stock(NamedTuple):
    """The machines that there are after a step of the reconciler."""

    machines: Mapping[str, Machine] = {}
    """Those that are alive, by their open tickets."""
    full: tuple[MachineKind, ...] = ()
    """The kinds that were requested in this step and for which there is no capacity."""
    trouble: str = ""
    """What keeps it from renting or ending what it should, in a sentence; empty when nothing does."""
    listed: bool = True
    """Whether the provider answered; if not, nothing is known of what there is."""
    gone: frozenset[str] = frozenset()
    """Tickets whose machine has ended, by the provider's own word."""
    strays: int = 0
    """Machines that no open ticket explains and that have not gone: they are being ended."""


class Need(NamedTuple):
    """GPUs that a job is to have."""

    kind: Capacity
    pool: str
    gpus: int


class Renting(NamedTuple):
    """A provider, the rules for it, and the kinds of machines that may be rented."""

    provider: Provider
    rules: Rules
    specs: tuple[MachineKind, ...]

    def pool(self, name: str) -> str:
        """Return the machines' pool for a job's pool: the one of that name, or the only one that there is."""
        pools = list(dict.fromkeys(spec.pool for spec in self.specs))
        return pools[0] if len(pools) == 1 else name

    def wanted(self, gpus: Iterable[Need]) -> Mapping[MachineKind, int]:
        """Return how many machines are needed, on demand first; needs that none can meet are left out."""
        sums: dict[tuple[Capacity, str], int] = {}
        for need in gpus:
            sums[need[:2]] = sums.get(need[:2], 0) + need.gpus
        want: dict[MachineKind, int] = {}
        for (kind, pool), count in sorted(sums.items()):
            spec = self._spec(kind, pool)
            if spec is not None and count > 0:
                want[spec] = math.ceil(count / spec.gpus)
        return want

    def most(self, kind: Capacity, pool: str) -> float:
        """Return the most GPUs of a kind that could be rented in a pool."""
        spec = self._spec(kind, pool)
        if spec is None:
            return 0.0
        price = self.rules.price(spec)
        machines = self.rules.max_machines
        if price > 0.0 and math.isfinite(self.rules.max_usd_per_hour):
            machines = min(machines, math.floor(self.rules.max_usd_per_hour / price + 1e-9))
        return machines * spec.gpus

    def lacking(self, gpus: Iterable[Need]) -> str:
        """Return a message about a need that no machine of the file can meet; empty if there is none."""
        for need in gpus:
            if need.gpus and self._spec(need.kind, need.pool) is None:
                offers = ", ".join(f"{spec.kind} in {shown(spec.pool)}" for spec in self.specs)
                return (
                    f"the machines file must offer {need.kind} machines in pool {shown(need.pool)}, got only "
                    f"{offers}; add it there, or choose another pool of the market"
                )
        return ""

    def _spec(self, kind: Capacity, pool: str) -> MachineKind | None:
        return next((spec for spec in self.specs if (spec.kind, spec.pool) == (kind, pool)), None)
