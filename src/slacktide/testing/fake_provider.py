"""A cloud that exists only in memory, with the faults of real ones, for tests and for trying things out.

Chance comes from a seed and time from a clock that the caller gives, so runs can be repeated. It keeps its
own account, to be compared with the journal's.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta

from slacktide.core.errors import InputError, shown
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import (
    INTERRUPTED,
    ListsAllOwners,
    Machine,
    MachineState,
    NoCapacity,
    Renter,
    Unreachable,
    providers,
)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)  # the cloud's hour 0
LISTED_AFTER_HOURS = 1.0  # how long a machine that is gone stays in lists
NOTICE_HOURS = 2.0 / 60.0


@dataclass(slots=True, kw_only=True)
class Faults:
    """How often things go wrong; a share is the probability for one call, machine or request."""

    lost_share: float = 0.0  # calls that are carried out, but whose answer is lost
    throttled_share: float = 0.0  # calls that are rejected, with nothing done
    late_hours: float = 0.0
    """How old an entry of a list may be, drawn for each: so machines may vanish and come back in lists."""
    full_share: float = 0.0  # requests that find a pool full; it stays full for a while
    full_hours: float = 0.0  # at most for this long
    interruptions_per_hour: float = 0.0  # of each spot machine; about half come with a notice
    dud_share: float = 0.0  # machines that boot and never join


@dataclass(slots=True)
class FakeInstance:
    """A machine as it really is."""

    id: str
    owner: str
    ticket: str
    spec: MachineKind
    made_hours: float
    ended_hours: float = math.inf
    why: str = ""
    dud: bool = False
    noticed_hours: float = math.inf
    """When it was warned that it will be taken; it is taken NOTICE_HOURS later."""
    address: str = ""
    since_utc: datetime = EPOCH
    until_utc: datetime | None = None

    def state(self, at_hours: float, boot_hours: float) -> MachineState:
        """Return its state at a time."""
        if at_hours >= self.ended_hours:
            return "gone"
        booted = at_hours >= self.made_hours + boot_hours and not self.dud
        return "up" if booted else "starting"


class Cloud:
    """The imagined cloud: all machines of all owners, as they really are."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        seed: int = 0,
        faults: Faults | None = None,
        boot_hours: float = 0.0,
    ) -> None:
        """Begin without machines; `clock` returns hours, which must never decrease."""
        self.faults, self.boot_hours = faults or Faults(), boot_hours
        self.instances: dict[str, FakeInstance] = {}
        self._clock, self._random = clock, random.Random(seed)
        self._passed_hours = clock()
        self._of_ticket: dict[tuple[str, str], FakeInstance] = {}
        self._full_until: dict[tuple[str, str], float] = {}
        self._living: dict[str, FakeInstance] = {}

    @property
    def living(self) -> list[FakeInstance]:
        """The machines that are paid for now."""
        self.pass_time()
        return list(self._living.values())

    def billed_hours(self) -> float:
        """Return how many machine-hours this cloud has billed so far."""
        now = self.pass_time()
        return sum(min(machine.ended_hours, now) - machine.made_hours for machine in self.instances.values())

    def pass_time(self) -> float:
        """Apply the interruptions that are due by now, and return the time."""
        now = self._clock()
        passed, self._passed_hours = now - self._passed_hours, now
        if passed > 0.0:
            chance = -math.expm1(-self.faults.interruptions_per_hour * passed)
            for instance in list(self._living.values()):
                self._age(instance, now, chance)
        return now

    def _age(self, instance: FakeInstance, now: float, chance: float) -> None:
        if now >= instance.noticed_hours + NOTICE_HOURS:
            self._end(instance, instance.noticed_hours + NOTICE_HOURS, INTERRUPTED)
        elif instance.spec.kind == "spot" and instance.noticed_hours == math.inf and self._happens(chance):
            if self._happens(0.5):
                instance.noticed_hours = now
            else:
                self._end(instance, now, INTERRUPTED)

    def _end(self, instance: FakeInstance, hours: float, why: str) -> None:
        if instance.ended_hours == math.inf:
            instance.ended_hours, instance.why = hours, why
            instance.until_utc = EPOCH + timedelta(hours=hours)
            del self._living[instance.id]

    def _happens(self, share: float) -> bool:
        return share > 0.0 and self._random.random() < share

    def _answer(self) -> None:
        if self._happens(self.faults.lost_share):
            raise Unreachable("the answer was lost")

    def _call(self) -> float:
        now = self.pass_time()
        if self._happens(self.faults.throttled_share):
            raise Unreachable("too many requests")
        return now

    def rent(self, owner: str, ticket: str, spec: MachineKind) -> None:
        """Make a machine, unless this owner's ticket has one already."""
        now = self._call()
        if (owner, ticket) not in self._of_ticket:
            self._find_room(spec, now)
            number = len(self.instances) + 1
            name, address = f"i-{number:06d}", f"10.0.{number // 250}.{number % 250}"
            dud, since = self._happens(self.faults.dud_share), EPOCH + timedelta(hours=now)
            instance = FakeInstance(name, owner, ticket, spec, now, dud=dud, address=address, since_utc=since)
            self.instances[name] = self._of_ticket[owner, ticket] = self._living[name] = instance
        self._answer()

    def _find_room(self, spec: MachineKind, now: float) -> None:
        if now >= self._full_until.get(spec[:2], -math.inf) and self._happens(self.faults.full_share):
            self._full_until[spec[:2]] = now + self._random.random() * self.faults.full_hours
        elif now >= self._full_until.get(spec[:2], -math.inf):
            return
        raise NoCapacity(f"{spec.pool} is full")

    def end(self, ids: Sequence[str]) -> None:
        """End machines of any owner."""
        now = self._call()
        for name in ids:
            if name in self._living:
                self._end(self._living[name], now, "ended")
        self._answer()

    def listed(self) -> Iterator[tuple[str, Machine]]:
        """Yield machines with their owners, as a list shows them: each as it was up to `late_hours` ago."""
        now = self._call()
        for instance in self.instances.values():
            if instance.ended_hours < now - LISTED_AFTER_HOURS:
                continue
            shown = now - self._random.random() * self.faults.late_hours
            if shown >= instance.made_hours:
                yield instance.owner, self._shown(instance, shown)

    def _shown(self, instance: FakeInstance, at: float) -> Machine:
        state = instance.state(at, self.boot_hours)
        gone = state == "gone"
        left_s = (instance.noticed_hours + NOTICE_HOURS - at) * 3600.0
        return Machine(
            instance.id, instance.ticket, instance.spec, state,
            address=instance.address if state == "up" else "",
            why=instance.why if gone and instance.why != "ended" else "",
            notice_s=None if gone or at < instance.noticed_hours else max(0.0, left_s),
            since_utc=instance.since_utc,
            until_utc=instance.until_utc if gone else None,
        )  # fmt: skip


@providers.register
@dataclass(slots=True)
class Fake(Faults, ListsAllOwners):
    """Rents machines of a cloud that is only imagined, with faults that a seed decides."""

    # The faults are settings of its own, because a machines file names settings one by one.
    renter: Renter = field(default_factory=Renter)
    seed: int = 0
    boot_hours: float = 0.0
    cloud: Cloud | None = None
    """The cloud to rent from; None: one that all providers of this process with the same seed share."""
    _cloud: Cloud = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in (fault.name for fault in fields(Faults)):
            value = getattr(self, name)
            if not value >= 0.0 or (name.endswith("_share") and value > 1.0):
                raise InputError(f"{name} must be >= 0, and a share at most 1, got {value}", field=name)
        if not isinstance(self.cloud, Cloud | None):
            raise InputError(f"cloud must be left out of files, got {shown(self.cloud)}", field="cloud")
        if self.cloud is None:
            made = Cloud(_hours, seed=self.seed, boot_hours=self.boot_hours)
            self._cloud = SHARED.setdefault(self.seed, made)
            self._cloud.faults = self
        else:
            self._cloud = self.cloud

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Make a machine of the imagined cloud."""
        self._cloud.rent(self.renter.owner, ticket, spec)

    def end(self, ids: Sequence[str]) -> None:
        """End machines of it."""
        self._cloud.end(ids)

    def _machines(self) -> Iterator[tuple[str, Machine]]:
        return self._cloud.listed()


SHARED: dict[int, Cloud] = {}  # the clouds of this process, by their seeds


def _hours() -> float:
    return (time.time() - EPOCH.timestamp()) / 3600.0
