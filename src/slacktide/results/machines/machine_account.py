"""The bill of machines against the account that their provider keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from slacktide.journal.events import Capacity, Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """One ticket: what the journal says that it is paid for, and what its provider says."""

    ticket: str
    machine: str | None
    capacity: Capacity
    pool: str
    gpus: int
    usd_per_hour: float
    rented_utc: datetime | None  # none where the journal does not know the ticket
    boot_hours: float | None
    our_hours: float
    their_hours: float | None
    """None where the provider does not list it, or does not say from when to when it was there."""
    returned_utc: datetime | None
    cause: Cause
    why: str

    @property
    def in_journal(self) -> bool:
        """Whether the journal knows the ticket."""
        return self.rented_utc is not None

    @property
    def our_usd(self) -> float:
        """What it costs by the journal."""
        return self.our_hours * self.usd_per_hour

    @property
    def their_usd(self) -> float | None:
        """What it costs by its provider's hours, at the same price."""
        return None if self.their_hours is None else self.their_hours * self.usd_per_hour

    @property
    def difference_share(self) -> float | None:
        """How much more the journal counts than the provider; None where that cannot be said."""
        return None if self.their_hours is None else _share(self.our_hours, self.their_hours)


@dataclass(frozen=True, slots=True)
class MachineAccount:
    """All machines of a journal, and those of its owner that it does not know."""

    rows: tuple[AccountRow, ...]
    until_utc: datetime | None

    @property
    def known(self) -> tuple[AccountRow, ...]:
        """Those that the provider lists with their times."""
        return tuple(row for row in self.rows if row.their_hours is not None)

    @property
    def unknown(self) -> int:
        """How many the provider does not list: these are no part of the comparison."""
        return len(self.rows) - len(self.known)

    @property
    def hours(self) -> float:
        """Hours by the journal, of all machines."""
        return math.fsum(row.our_hours for row in self.rows)

    @property
    def cost_usd(self) -> float:
        """The cost of all machines by the journal."""
        return math.fsum(row.our_usd for row in self.rows)

    @property
    def our_hours(self) -> float:
        """Hours by the journal, of those that the provider lists."""
        return math.fsum(row.our_hours for row in self.known)

    @property
    def their_hours(self) -> float:
        """Hours of the same machines by their provider."""
        return math.fsum(row.their_hours or 0.0 for row in self.known)

    @property
    def our_usd(self) -> float:
        """The cost of the same machines by the journal."""
        return math.fsum(row.our_usd for row in self.known)

    @property
    def their_usd(self) -> float:
        """The cost of the same machines by their provider's hours."""
        return math.fsum(row.their_usd or 0.0 for row in self.known)

    @property
    def difference_share(self) -> float | None:
        """How many more hours the journal counts than the provider, as a share; None: nothing to compare."""
        return _share(self.our_hours, self.their_hours)


def _share(ours: float, theirs: float) -> float | None:
    return ours / theirs - 1.0 if theirs > 0.0 else None
