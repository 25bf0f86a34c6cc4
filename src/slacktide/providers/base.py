"""The contract of providers, which rent machines: rent one, end some, list ours. Nothing else rents or ends.

A provider keeps no account of its own: which machines are wanted is in the journal, as open tickets. A ticket
is the key that makes a request safe to repeat: the same ticket never gives a second machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from slacktide.core.errors import BackendError, InputError
from slacktide.core.register import Register
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
    """How long it has left, where the provider has said so; a machine itself may know sooner."""
    since_utc: datetime | None = None
    """From when on it is paid for, by the provider's own account; None where it does not report that."""
    until_utc: datetime | None = None

    @property
    def alive(self) -> bool:
        """Whether it can be, or become, of use."""
        return self.state in ("starting", "up")


class NoCapacity(BackendError):
    """No such machine is available just now; final for this ticket, with which none will ever come."""


class Spent(BackendError):
    """The machine of this ticket has come and gone; final for this ticket, and no word about capacity."""


class Unreachable(BackendError):
    """No answer, or a refusal for now: perhaps it was done. Try again with the same ticket."""


class Refused(InputError):
    """The provider will not, and trying again will not help: credentials or settings are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renter:
    """What a provider is made with: for whom it rents, and what machines are to join."""

    owner: str = "nobody"
    """The journal's id, which no other journal has; every machine carries it."""
    folder: Path = Path(".")
    """Where it may keep files of this owner's."""
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
        """See that there is one machine with this ticket, or will be.

        Raises NoCapacity or Spent, which are final for the ticket; Unreachable; Refused.
        """
        ...

    def end(self, ids: Sequence[str]) -> None:
        """End these machines, those that have ended already included; raises Unreachable or Refused."""
        ...

    def machines(self) -> Sequence[Machine]:
        """List all machines of this owner, those that are gone for a while; perhaps some seconds late.

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
