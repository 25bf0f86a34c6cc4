"""Comparing the bill of machines with what their provider lists: from when to when each was there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from slacktide.engine.bills.real_time import between
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Machine
from slacktide.results.machines.machine_account import AccountRow, MachineAccount
from slacktide.results.machines.machine_bill import MachineBill, MachineCost


def compared(
    bill: MachineBill, machines: Sequence[Machine], price: Callable[[MachineKind], float] = lambda spec: 0.0
) -> MachineAccount:
    """Put what a provider lists for an owner next to the bill of that owner's journal.

    What the provider does not list, or not any more, is unknown and not zero. Tickets that never had a
    machine are left out unless one is listed for them. Machines that the journal does not know are there
    too, at the `price` of their kind. A machine that has not gone counts until the bill's own end.
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
    """Return for how long the machines of a ticket were there; None where their provider does not say."""
    hours = [_listed_hours(machine, now) for machine in machines]
    known = [each for each in hours if each is not None]
    return sum(known) if known and len(known) == len(hours) else None


def _listed_hours(machine: Machine, now: datetime | None) -> float | None:
    until = machine.until_utc if machine.state == "gone" else now
    if machine.since_utc is None or until is None:
        return None
    return between(machine.since_utc, until)
