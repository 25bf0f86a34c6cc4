"""What rented machines cost and what jobs used of them: folds over the records of a journal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from slacktide.journal import events
from slacktide.journal.events import Record
from slacktide.journal.state.tickets import MachineKind
from slacktide.physics.ledger import Stretch
from slacktide.providers.base import Machine
from slacktide.results.machine_bill import (
    FREE,
    AccountRow,
    MachineAccount,
    MachineBill,
    MachineCost,
    MachineUse,
)


class RealTime:
    """Counts real hours from record to record.

    Rented machines are paid by real time. The market clock may run faster than that and may be set, and a
    fast one waits for its controller; any user may set the wall clock. So the market clock is used as long
    as it is no faster than real time and was not set, because it counts by the computer's own clock, which
    no user can set. Everywhere else the times at which records were written are used. Time never runs
    backwards: a clock that was set back counts as one that stood still.
    """

    def __init__(self) -> None:
        self.hours = 0.0  # since the first record
        self.speed: float | None = None  # how fast the market's clock runs; None before it was set
        self._last: Record | None = None

    def advance(self, record: Record) -> float:
        """Move on to a record, and return the hours at it.

        Only for records whose event happened when it was written: in many events `at_hours` is earlier.
        """
        last, self._last = self._last, record
        if last is not None:
            if self.speed is not None and self.speed <= 1.0 and not isinstance(record.event, events.ClockSet):
                self.hours += max(0.0, record.event.at_hours - last.event.at_hours) / self.speed
            else:
                self.hours += between(last.time_utc, record.time_utc)
        if isinstance(record.event, events.ClockSet):
            self.speed = record.event.speed
        return self.hours

    def at(self, utc: datetime) -> float:
        """Return the hours at a time after the last record."""
        return self.hours if self._last is None else self.hours + between(self._last.time_utc, utc)


def between(begin: datetime, end: datetime) -> float:
    """Return the hours from one time to another; 0 where that is earlier."""
    return max(0.0, (end - begin).total_seconds() / 3600.0)


def machine_bill(records: Iterable[Record], until_utc: datetime | None = None) -> MachineBill:
    """Return the bill of all machines in the records of a journal.

    Hours are real hours (see RealTime). An open ticket costs until `until_utc`, or until the last record if
    that is None, even if no provider has answered it yet: a machine may be there. A ticket that was closed
    because there was no capacity, or because the provider refused it, costs nothing. A machine costs nothing
    after the time at which its provider says that it ended, however late that was noticed.
    """
    time, lines, last_utc = RealTime(), dict[str, MachineCost](), None
    rented_hours: dict[str, float] = {}  # when each ticket was opened, in real hours
    for record in records:
        last_utc = record.time_utc
        match record.event:
            case events.ClockSet() | events.ClockAnchored() | events.ClockJumped() as event if not event.job:
                time.advance(record)  # also where the wall's clock was set while machines are rented
            case events.Rented() as event:
                lines[event.ticket] = MachineCost(
                    ticket=event.ticket, machine=None, capacity=event.capacity, pool=event.pool,
                    gpus=event.gpus, usd_per_hour=event.usd_per_hour, rented_utc=record.time_utc, hours=0.0,
                )  # fmt: skip
                rented_hours[event.ticket] = time.advance(record)
            case events.Joined() | events.Returned() as event if event.ticket in lines:
                line = lines[event.ticket]
                if line.returned_utc is None:
                    hours = time.advance(record) - rented_hours[event.ticket]
                    lines[event.ticket] = _updated(line, event, record.time_utc, hours)
    end_utc = until_utc or last_utc
    for ticket, line in lines.items():
        if line.returned_utc is None and end_utc is not None:
            lines[ticket] = replace(line, hours=time.at(end_utc) - rented_hours[ticket])
    return MachineBill(tuple(lines.values()), end_utc)


def _updated(
    cost: MachineCost, event: events.Joined | events.Returned, utc: datetime, hours: float
) -> MachineCost:
    if isinstance(event, events.Joined):
        first = cost.joined_utc is None
        return replace(cost, machine=event.machine, joined_utc=utc, boot_hours=hours) if first else cost
    late = between(datetime.fromisoformat(event.ended_utc), utc) if event.ended_utc else 0.0
    free = event.cause in FREE and cost.machine is None
    paid = 0.0 if free else max(0.0, hours - late)
    return replace(cost, returned_utc=utc, hours=paid, cause=event.cause, why=event.why)


KEPT_HOURS = 24.0
"""How long a ticket that was closed is remembered: a stretch is written at its end, and none lasts a day."""


@dataclass(slots=True)
class _Rent:
    pool: str
    capacity: str
    gpus: int
    from_hours: float
    to_hours: float = math.inf


@dataclass(slots=True)
class _Fold:
    speed: float = 1.0
    rents: dict[str, _Rent] = field(default_factory=dict)
    used: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)  # the pool that each job was last to be in
    starts: dict[str, tuple[float, float]] = field(default_factory=dict)
    """For each job, how many starts of workers were measured, and their total hours."""
    first: dict[str, list[float]] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        match record.event:
            case events.ClockSet() as event:
                self.speed = event.speed
                self._forget(math.inf)
                for rent in self.rents.values():
                    rent.from_hours = -math.inf
            case events.Rented() as event:
                self.rents[event.ticket] = _Rent(event.pool, event.capacity, event.gpus, event.at_hours)
            case events.Returned() as event if event.ticket in self.rents:
                self.rents[event.ticket].to_hours = event.at_hours
                self._forget(event.at_hours - KEPT_HOURS)
            case events.Decided() as event:
                self.pools[event.job] = event.pool
            case events.Lived() as event:
                self._lived(event.priced.stretch)
            case events.PaceRevised() as event:
                self._revised(event)

    def _forget(self, before_hours: float) -> None:
        self.rents = {name: rent for name, rent in self.rents.items() if rent.to_hours >= before_hours}

    def _lived(self, stretch: Stretch) -> None:
        for capacity, gpus in (("spot", stretch.spot_gpus), ("on-demand", stretch.on_demand_gpus)):
            held = min(gpus, self._there(stretch, capacity)) * stretch.held_hours / self.speed
            if held > 0.0:
                self.used.setdefault((stretch.pool, capacity), []).append(held)

    def _there(self, stretch: Stretch, capacity: str) -> int:
        """Return how many GPUs of a kind were rented in a stretch's pool at any time during it."""
        return sum(
            rent.gpus
            for rent in self.rents.values()
            if (rent.pool, rent.capacity) == (stretch.pool, capacity)
            and rent.from_hours < stretch.to_hours
            and rent.to_hours > stretch.from_hours
        )

    def _revised(self, event: events.PaceRevised) -> None:
        """Note the hours of the newest start, from the mean of all starts that the engine keeps."""
        count, hours = event.pace.restarts, event.pace.restarts * event.pace.restart_hours
        counted, before = self.starts.get(event.job, (0.0, 0.0))
        self.starts[event.job] = count, hours
        pool = self.pools.get(event.job, "")
        if count == counted + 1.0 and any(rent.pool == pool for rent in self.rents.values()):
            self.first.setdefault(pool, []).append((hours - before) / self.speed)


def machine_use(records: Iterable[Record]) -> MachineUse:
    """Add up what jobs held of rented machines, and when their workers first reported.

    GPUs count only if machines of their kind were rented in their pool at that time, and never more than
    those machines had: other jobs of the journal ran elsewhere. Hours are real ones, by the speed of the
    market clock. Times to first progress are the restarts that the engine measures, so there are none for
    fleets, nor for jobs whose file says that their work is certain.
    """
    fold = _Fold()
    for record in records:
        fold.apply(record)
    return MachineUse(
        {key: math.fsum(hours) for key, hours in fold.used.items()},
        {pool: tuple(hours) for pool, hours in fold.first.items()},
    )


def compared(
    bill: MachineBill, machines: Sequence[Machine], price: Callable[[MachineKind], float] = lambda spec: 0.0
) -> MachineAccount:
    """Put what a provider lists for an owner next to the bill of that owner's journal.

    What the provider does not list (any more) is unknown, not zero. Tickets that never had a machine are left
    out unless one is listed for them. Machines that the journal does not know are included, at the `price`
    of their kind. A machine that still runs counts until the end of the bill.
    """
    listed: dict[str, list[Machine]] = {}
    for machine in machines:
        listed.setdefault(machine.ticket, []).append(machine)
    ours = [
        _row(line, listed.get(line.ticket, ()), bill.until_utc)
        for line in bill.lines
        if not line.free or line.ticket in listed
    ]
    known = {line.ticket for line in bill.lines}
    strays = [
        _stray(machine, price(machine.spec), bill.until_utc)
        for machine in machines
        if machine.ticket not in known
    ]
    return MachineAccount((*ours, *strays), bill.until_utc)


def _row(line: MachineCost, machines: Sequence[Machine], now: datetime | None) -> AccountRow:
    first = machines[0].id if machines else None
    return AccountRow(
        ticket=line.ticket, machine=line.machine or first, capacity=line.capacity, pool=line.pool,
        gpus=line.gpus, usd_per_hour=line.usd_per_hour, rented_utc=line.rented_utc,
        boot_hours=line.boot_hours, our_hours=line.hours, their_hours=_hours(machines, now),
        returned_utc=line.returned_utc, cause=line.cause, why=line.why,
    )  # fmt: skip


def _stray(machine: Machine, usd_per_hour: float, now: datetime | None) -> AccountRow:
    return AccountRow(
        ticket=machine.ticket, machine=machine.id, capacity=machine.spec.kind, pool=machine.spec.pool,
        gpus=machine.spec.gpus, usd_per_hour=usd_per_hour, rented_utc=None, boot_hours=None, our_hours=0.0,
        their_hours=_hours((machine,), now), returned_utc=machine.until_utc, cause="", why=machine.why,
    )  # fmt: skip


def _hours(machines: Sequence[Machine], now: datetime | None) -> float | None:
    """Return how many hours the machines of a ticket were there; None if their provider does not say."""
    hours = list[float]()
    for machine in machines:
        until = machine.until_utc if machine.state == "gone" else now
        if machine.since_utc is None or until is None:
            return None
        hours.append(between(machine.since_utc, until))
    return sum(hours) if hours else None
