"""The bill of machines: a fold over the tickets of a journal, each from when it was opened to its end.

A machine is paid for as long as it exists, whatever jobs use of it, so only tickets count. Its provider may
count a little less or more: it starts and ends the machine some seconds after the journal notes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from slacktide.engine.bills.real_time import RealTime, between
from slacktide.journal.events import ClockAnchored, ClockJumped, ClockSet, Joined, Record, Rented, Returned
from slacktide.results.machines.machine_bill import FREE, MachineBill, MachineCost


@dataclass(slots=True)
class _MachineLine:
    """A line of the bill, and when its ticket was opened, in real hours."""

    cost: MachineCost
    rented_hours: float

    @property
    def open(self) -> bool:
        return self.cost.returned_utc is None


def machine_bill(records: Iterable[Record], until_utc: datetime | None = None) -> MachineBill:
    """Return the bill of all machines in the records of a journal.

    Hours are real hours (see RealTime). A ticket that is open costs until `until_utc`, or until the last
    record where no time is given, also if no provider has answered it yet: a machine may be there. One that
    was closed because there was no capacity, or because the provider refused it, costs nothing. Where the
    provider said when a machine ended, it costs no longer than that, however late it was noticed.
    """
    time, lines, last_utc = RealTime(), dict[str, _MachineLine](), None
    for record in records:
        last_utc = record.time_utc
        match record.event:
            case ClockSet() | ClockAnchored() | ClockJumped() as event if not event.job:
                time.advance(record)  # also where the wall's clock was set while machines are rented
            case Rented() as event:
                lines[event.ticket] = _MachineLine(_rented(event, record.time_utc), time.advance(record))
            case Joined() | Returned() as event if event.ticket in lines and lines[event.ticket].open:
                line = lines[event.ticket]
                line.cost = _updated(
                    line.cost, event, record.time_utc, time.advance(record) - line.rented_hours
                )
    end_utc = until_utc or last_utc
    for line in lines.values():
        if line.open and end_utc is not None:
            line.cost = replace(line.cost, hours=time.at(end_utc) - line.rented_hours)
    return MachineBill(tuple(line.cost for line in lines.values()), end_utc)


def _rented(event: Rented, utc: datetime) -> MachineCost:
    return MachineCost(
        ticket=event.ticket,
        machine=None,
        capacity=event.capacity,
        pool=event.pool,
        gpus=event.gpus,
        usd_per_hour=event.usd_per_hour,
        rented_utc=utc,
        hours=0.0,
    )


def _updated(cost: MachineCost, event: Joined | Returned, utc: datetime, hours: float) -> MachineCost:
    """Return a line of the bill after one more fact, this many hours after its ticket."""
    if isinstance(event, Joined):
        first = cost.joined_utc is None
        return replace(cost, machine=event.machine, joined_utc=utc, boot_hours=hours) if first else cost
    late = between(datetime.fromisoformat(event.ended_utc), utc) if event.ended_utc else 0.0
    free = event.cause in FREE and cost.machine is None
    paid = 0.0 if free else max(0.0, hours - late)
    return replace(cost, returned_utc=utc, hours=paid, cause=event.cause, why=event.why)
