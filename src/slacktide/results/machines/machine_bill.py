"""What rented machines cost: a line for each, what it comes to by pool and in all, and how long they boot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from slacktide.journal.events import Capacity, Cause

FREE: tuple[Cause, ...] = ("no-capacity", "refused")  # causes of tickets for which there never was a machine
LAST_BOOTS = 20  # how many of the last boots of a pool say how long the next one takes


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCost:
    """One ticket, and the machine that it was paid for with."""

    ticket: str
    machine: str | None  # what its provider calls it; None where none has joined
    capacity: Capacity
    pool: str
    gpus: int
    usd_per_hour: float
    rented_utc: datetime
    joined_utc: datetime | None = None
    returned_utc: datetime | None = None  # when its ticket was closed; None while it is open
    hours: float  # for how long it is paid: 0 where there never was a machine
    boot_hours: float | None = None  # from the ticket until it was ready for use; None where it never was
    cause: Cause = ""
    why: str = ""

    @property
    def cost_usd(self) -> float:
        """What it costs, or has cost so far."""
        return self.hours * self.usd_per_hour

    @property
    def gpu_hours(self) -> float:
        """Its GPUs times the hours it is paid for."""
        return self.hours * self.gpus

    @property
    def free(self) -> bool:
        """Whether the ticket was closed without a machine."""
        return self.cause in FREE and self.machine is None

    @property
    def never_joined(self) -> bool:
        """Whether it was paid for and given up before it could be used."""
        return self.machine is None and self.returned_utc is not None and not self.free


@dataclass(frozen=True, slots=True)
class Spread:
    """Times of one kind: how many there were, the middle one, and the worst."""

    count: int
    median_hours: float | None
    worst_hours: float | None


def spread_of(hours: Iterable[float]) -> Spread:
    """Return the spread of some times."""
    found = list(hours)
    return Spread(len(found), median(found), max(found)) if found else Spread(0, None, None)


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
        """Hours of all machines, added without an error of rounding."""
        return math.fsum(one.hours for one in self.lines)

    @property
    def gpu_hours(self) -> float:
        """GPUs times hours."""
        return math.fsum(one.gpu_hours for one in self.lines)

    @property
    def cost_usd(self) -> float:
        """The cost of all of them."""
        return math.fsum(one.cost_usd for one in self.lines)

    @property
    def boot(self) -> Spread:
        """How long those that joined took from their tickets until they were ready."""
        return spread_of(one.boot_hours for one in self.lines if one.boot_hours is not None)

    @property
    def never_joined(self) -> int:
        """How many were given up before they could be used."""
        return sum(one.never_joined for one in self.lines)

    @property
    def interrupted(self) -> int:
        """How many their provider took back."""
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
    """Up to when those are counted whose ticket is open; None where there is no record at all."""

    @property
    def total(self) -> MachineGroup:
        """All of them."""
        return MachineGroup("", "", self.lines)

    @property
    def pools(self) -> tuple[MachineGroup, ...]:
        """The machines by pool and kind, in the order in which these were first rented."""
        keys = dict.fromkeys((one.pool, one.capacity) for one in self.lines)
        return tuple(
            MachineGroup(*key, tuple(one for one in self.lines if (one.pool, one.capacity) == key))
            for key in keys
        )

    @property
    def by_pool(self) -> tuple[MachineGroup, ...]:
        """The machines by pool alone."""
        pools = dict.fromkeys(one.pool for one in self.lines)
        return tuple(
            MachineGroup(pool, "", tuple(one for one in self.lines if one.pool == pool)) for pool in pools
        )

    @property
    def open(self) -> int:
        """How many tickets are open: these are counted until `until_utc`."""
        return sum(one.returned_utc is None for one in self.lines)

    def boot_hours(self, pool: str) -> float | None:
        """Return how long a machine of a pool takes until it is ready: the median of its last boots.

        None where no machine of it has joined. These are hours of the wall clock: who counts on a clock that
        runs faster multiplies by its speed.
        """
        booted = [one.boot_hours for one in self.lines if one.pool == pool and one.boot_hours is not None]
        return median(booted[-LAST_BOOTS:]) if booted else None
