"""What rented machines cost: each, by pool and in all, and compared with their provider's account."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median

from slacktide.journal.events import Capacity, Cause

FREE: tuple[Cause, ...] = ("no-capacity", "refused")  # causes of tickets for which there never was a machine
LAST_BOOTS = 20  # the time of a pool's next boot is estimated from this many of its last ones


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCost:
    """One ticket, and what its machine cost."""

    ticket: str
    machine: str | None  # what its provider calls it; None where none has joined
    capacity: Capacity
    pool: str
    gpus: int
    usd_per_hour: float
    rented_utc: datetime
    joined_utc: datetime | None = None
    returned_utc: datetime | None = None  # when its ticket was closed; None while it is open
    hours: float  # the hours that are paid for: 0 where there never was a machine
    boot_hours: float | None = None  # from the ticket until it was ready for use; None where it never was
    cause: Cause = ""
    why: str = ""

    @property
    def cost_usd(self) -> float:
        return self.hours * self.usd_per_hour

    @property
    def gpu_hours(self) -> float:
        return self.hours * self.gpus

    @property
    def free(self) -> bool:
        """Whether the ticket was closed without a machine, and so without cost."""
        return self.cause in FREE and self.machine is None

    @property
    def never_joined(self) -> bool:
        """Whether it was paid for and given up before it could be used."""
        return self.machine is None and self.returned_utc is not None and not self.free


@dataclass(frozen=True, slots=True)
class Spread:
    """Times of one kind: how many there were, their median, and the longest."""

    count: int
    median_hours: float | None
    worst_hours: float | None

    @classmethod
    def of(cls, hours: Iterable[float]) -> Spread:
        found = list(hours)
        return cls(len(found), median(found), max(found)) if found else cls(0, None, None)


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """Machines of one pool and kind, or all of them."""

    pool: str  # empty: of all pools
    capacity: str  # empty: of both kinds
    lines: tuple[MachineCost, ...]

    @property
    def machines(self) -> int:
        """How many are paid for."""
        return sum(not one.free for one in self.lines)

    @property
    def hours(self) -> float:
        return math.fsum(one.hours for one in self.lines)

    @property
    def gpu_hours(self) -> float:
        return math.fsum(one.gpu_hours for one in self.lines)

    @property
    def cost_usd(self) -> float:
        return math.fsum(one.cost_usd for one in self.lines)

    @property
    def boot(self) -> Spread:
        """How long those that joined took from their tickets until they were ready."""
        return Spread.of(one.boot_hours for one in self.lines if one.boot_hours is not None)

    @property
    def never_joined(self) -> int:
        """How many were given up before they could be used."""
        return sum(one.never_joined for one in self.lines)

    @property
    def interrupted(self) -> int:
        return sum(one.cause == "interrupted" for one in self.lines)

    @property
    def no_capacity(self) -> int:
        """How many tickets found the pool full; they cost nothing."""
        return sum(one.cause == "no-capacity" for one in self.lines)


@dataclass(frozen=True, slots=True)
class MachineBill:
    """Every machine in a journal."""

    lines: tuple[MachineCost, ...]  # in the order in which their tickets were opened
    until_utc: datetime | None
    """Until when machines with an open ticket are counted; None for a journal without any record."""

    @property
    def total(self) -> MachineGroup:
        return MachineGroup("", "", self.lines)

    @property
    def pools(self) -> tuple[MachineGroup, ...]:
        """The machines by pool and kind, in the order in which these were first rented."""
        return self._groups(lambda one: (one.pool, one.capacity))

    @property
    def by_pool(self) -> tuple[MachineGroup, ...]:
        """The machines by pool alone."""
        return self._groups(lambda one: (one.pool, ""))

    def _groups(self, key: Callable[[MachineCost], tuple[str, str]]) -> tuple[MachineGroup, ...]:
        found: dict[tuple[str, str], list[MachineCost]] = {}
        for one in self.lines:
            found.setdefault(key(one), []).append(one)
        return tuple(MachineGroup(*names, tuple(lines)) for names, lines in found.items())

    @property
    def open(self) -> int:
        """How many tickets are open; their machines are counted until `until_utc`."""
        return sum(one.returned_utc is None for one in self.lines)

    def boot_hours(self, pool: str) -> float | None:
        """Return how long a machine of a pool takes until it is ready: the median of its last boots.

        None where no machine of it has joined. These are hours of the wall clock; multiply them by the speed
        of a market clock that runs faster.
        """
        booted = [one.boot_hours for one in self.lines if one.pool == pool and one.boot_hours is not None]
        return median(booted[-LAST_BOOTS:]) if booted else None


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The GPU-hours of rented machines that jobs held, by pool and kind, and times to first progress."""

    used_gpu_hours: Mapping[tuple[str, str], float] = field(default_factory=dict)
    first_progress_hours: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """From the order of a set of workers to their first report, in hours of the wall clock."""

    def first_progress(self, pool: str) -> Spread:
        """Return how long workers took in a pool from their order to their first report."""
        return Spread.of(self.first_progress_hours.get(pool, ()))


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """The bill of machines, and what jobs used of them."""

    bill: MachineBill
    use: MachineUse

    def used_gpu_hours(self, group: MachineGroup) -> float:
        used = self.use.used_gpu_hours
        return used.get((group.pool, group.capacity), 0.0) if group.pool else sum(used.values())

    def idle_gpu_hours(self, group: MachineGroup) -> float:
        """Return how many GPU-hours of a group were paid for and held by no job, booting included."""
        return group.gpu_hours - self.used_gpu_hours(group)

    def used_share(self, group: MachineGroup) -> float | None:
        """Return the share of a group that jobs held; None where nothing was paid for."""
        return self.used_gpu_hours(group) / group.gpu_hours if group.gpu_hours > 0.0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """One ticket: the hours that the journal counts for it, and those that its provider counts."""

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
    """None where the provider does not list the machine, or gives no times for it."""
    returned_utc: datetime | None
    cause: Cause
    why: str

    @property
    def in_journal(self) -> bool:
        return self.rented_utc is not None

    @property
    def our_usd(self) -> float:
        return self.our_hours * self.usd_per_hour

    @property
    def their_usd(self) -> float | None:
        return None if self.their_hours is None else self.their_hours * self.usd_per_hour

    @property
    def difference_share(self) -> float | None:
        """How much more the journal counts than the provider; None where that cannot be said."""
        return None if self.their_hours is None else more_share(self.our_hours, self.their_hours)


@dataclass(frozen=True, slots=True)
class MachineAccount:
    """All machines of a journal, and those that are tagged as its own but have no record in it."""

    rows: tuple[AccountRow, ...]
    until_utc: datetime | None

    @property
    def known(self) -> tuple[AccountRow, ...]:
        """Those that the provider lists with their times: only these are compared."""
        return tuple(row for row in self.rows if row.their_hours is not None)

    @property
    def unknown(self) -> int:
        return len(self.rows) - len(self.known)

    @property
    def hours(self) -> float:
        """Hours of all machines by the journal; `our_hours` are those of the machines that are compared."""
        return math.fsum(row.our_hours for row in self.rows)

    @property
    def cost_usd(self) -> float:
        return math.fsum(row.our_usd for row in self.rows)

    @property
    def our_hours(self) -> float:
        return self._compared("our_hours")

    @property
    def their_hours(self) -> float:
        return self._compared("their_hours")

    @property
    def our_usd(self) -> float:
        return self._compared("our_usd")

    @property
    def their_usd(self) -> float:
        return self._compared("their_usd")

    def _compared(self, figure: str) -> float:
        return math.fsum(getattr(row, figure) for row in self.known)

    @property
    def difference_share(self) -> float | None:
        """How many more hours the journal counts than the provider, as a share; None: nothing to compare."""
        return more_share(self.our_hours, self.their_hours)


def more_share(ours: float, theirs: float) -> float | None:
    return ours / theirs - 1.0 if theirs > 0.0 else None
