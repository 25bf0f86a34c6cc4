"""What is rented, as a list of machines shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """One ticket or one machine, as its provider and the journal report it."""

    owner: str  # the id of the journal that it was rented for
    ticket: str
    machine: str | None  # what its provider calls it; None while none is listed for its ticket
    capacity: str
    pool: str
    gpus: int
    state: str  # `starting`, `up`, `ending`, or `asked` for a ticket without a machine
    orphan: bool  # whether no open ticket explains it
    joined: bool | None  # whether it is ready for use; None where no journal says
    address: str | None
    since_utc: str | None  # from when on it is paid for; of a ticket without a machine, when it was opened
    hours: float
    usd_per_hour: float
    cost_usd: float  # what it has cost so far, at that price
    why: str | None = None  # what its provider says of its end
