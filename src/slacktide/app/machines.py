"""Rented machines: list them, compare them with the journal's tickets and bill, and end orphans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from slacktide.app.journal.journal import open_journal, own_journal
from slacktide.core.errors import InputError, shown
from slacktide.engine.bills.machines import compared, machine_bill
from slacktide.files.machines import MachinesFile, read_machines_file
from slacktide.journal.events import Rented
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.state.tickets import MachineKind, Ticket
from slacktide.journal.store.paths import machine_files_of, real_path
from slacktide.providers.base import Machine, Renter, Surveying
from slacktide.results.machine_bill import MachineAccount
from slacktide.results.status import MachineStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesRequest:
    """Which machines to look at: those of one owner, or of all owners, at the provider of a machines file."""

    file: Path  # the machines file
    journal: Path | None = None
    """The journal whose tickets the machines are compared with; None: the user's own, if it exists."""
    owner: str = ""
    """The id of the journal that the machines were rented for; empty: that of `journal`."""
    all_owners: bool = False


class Account(NamedTuple):
    """What a journal knows about machines: its id, its open tickets, and when each ticket was opened."""

    owner: str = ""
    open: Mapping[str, Ticket] = {}
    opened_utc: Mapping[str, datetime] = {}


class Choice(NamedTuple):
    """A kind of machine that could be rented now."""

    spec: MachineKind
    usd_per_hour: float
    most: float  # how many more the limits allow; infinite where there are none


def list_machines(request: MachinesRequest) -> list[MachineStatus]:
    """List rented machines; raises InputError, and BackendError if the provider cannot be reached."""
    file = read_machines_file(request.file)
    # Machines first: a ticket is written before its machine is requested, so the journal read next has it.
    found = _found(file, request)
    account = _account(request)
    rows = [_status(file, account, owner, machine) for owner in found for machine in found[owner]]
    listed = {machine.ticket for machine in found.get(account.owner, ())}
    open_tickets = account.open.values() if account.owner in found else ()
    pending = [_pending(account, ticket) for ticket in open_tickets if ticket.id not in listed]
    return [*(row for row in rows if row.state != "gone"), *pending]


def account(request: MachinesRequest) -> MachineAccount:
    """Compare the bill of a journal's machines with what their provider lists.

    Raises InputError if there is no journal, and BackendError if the provider cannot be reached.
    """
    file = read_machines_file(request.file)
    found = _found(file, request)  # before the journal, which then has a ticket for each of them
    with open_journal(request.journal or own_journal()) as journal:
        bill = machine_bill(journal.store.read(job=""), datetime.now(UTC))
    return compared(bill, [machine for listed in found.values() for machine in listed], file.usd_per_hour)


def sweep(request: MachinesRequest, orphans: Sequence[MachineStatus]) -> list[str]:
    """End the machines of these orphans that are still orphans now, and return their ids."""
    named = {row.machine for row in orphans}
    still = [row for row in list_machines(request) if row.orphan and row.machine in named]
    file = read_machines_file(request.file)
    for owner in sorted({row.owner for row in still}):
        ids = [row.machine for row in still if row.owner == owner and row.machine is not None]
        file.provider_for(_renter(request, owner)).end(ids)
    return [row.machine for row in still if row.machine is not None]


def choices(request: MachinesRequest) -> list[Choice]:
    """Return each kind of machine in the file, with how many more of it the file's limits allow now."""
    file, rows = read_machines_file(request.file), list_machines(request)
    usd = file.max_usd_per_hour - sum(row.usd_per_hour for row in rows)
    left = file.max_machines - len(rows)

    def most(price: float) -> float:
        by_money = math.inf if not price or math.isinf(usd) else math.floor(usd / price + 1e-9)
        return max(0.0, min(left, by_money))

    return [Choice(spec, price := file.usd_per_hour(spec), most(price)) for spec in file.specs()]


def cheapest(file: Path) -> tuple[MachinesFile, MachineKind, float]:
    """Return a machines file, the cheapest kind of machine in it, and that kind's price in USD per hour."""
    read = read_machines_file(file)
    spec = min(read.specs(), key=read.usd_per_hour)
    return read, spec, read.usd_per_hour(spec)


def _found(file: MachinesFile, request: MachinesRequest) -> dict[str, Sequence[Machine]]:
    if not request.all_owners:
        owner = request.owner or _owner(request)
        return {owner: file.provider_for(_renter(request, owner)).machines()}
    provider = file.provider_for(_renter(request, "all owners"))
    if not isinstance(provider, Surveying):
        raise InputError(
            f"--all-owners must be used with a provider that finds them, got {shown(file.provider)}; "
            "give --owner ID"
        )
    return dict(provider.everyones())


def _renter(request: MachinesRequest, owner: str) -> Renter:
    folder = machine_files_of(request.journal or own_journal())
    from slacktide.backends.ray.cluster_note import find_cluster

    address, token, _ = find_cluster()
    return Renter(owner=owner, folder=folder, head=address, token="" if token is None else str(token))


def _owner(request: MachinesRequest) -> str:
    owner = _account(request).owner
    if not owner:
        raise InputError(
            "a journal or an owner of machines must be given, found neither; "
            "give --journal PATH, --owner ID or --all-owners"
        )
    return owner


def _account(request: MachinesRequest) -> Account:
    """Read the journal; return an empty account if none was named and the user has none."""
    path = real_path(request.journal or own_journal())
    if request.journal is None and not path.exists():
        return Account()
    with open_journal(path) as journal:
        state = read_state(journal.store)
        times = {
            record.event.ticket: record.time_utc
            for record in journal.store.read(job="")
            if isinstance(record.event, Rented)
        }
    return Account(state.id, dict(state.tickets.open), times)


def _status(file: MachinesFile, account: Account, owner: str, machine: Machine) -> MachineStatus:
    ticket = account.open.get(machine.ticket) if owner == account.owner else None
    since = machine.since_utc or (None if ticket is None else account.opened_utc.get(ticket.id))
    price = file.usd_per_hour(machine.spec) if ticket is None else ticket.usd_per_hour
    until = machine.until_utc or datetime.now(UTC)
    hours = 0.0 if since is None else max(0.0, (until - since).total_seconds() / 3600.0)
    return MachineStatus(
        owner=owner, ticket=machine.ticket, machine=machine.id, capacity=machine.spec.kind,
        pool=machine.spec.pool, gpus=machine.spec.gpus, state=machine.state, orphan=ticket is None,
        joined=None if ticket is None else ticket.machine == machine.id, address=machine.address or None,
        since_utc=None if since is None else since.isoformat(), hours=hours, usd_per_hour=price,
        cost_usd=hours * price, why=machine.why or None,
    )  # fmt: skip


def _pending(account: Account, ticket: Ticket) -> MachineStatus:
    since = account.opened_utc.get(ticket.id)
    return MachineStatus(
        owner=account.owner, ticket=ticket.id, machine=None, capacity=ticket.spec.kind,
        pool=ticket.spec.pool, gpus=ticket.spec.gpus, state="asked", orphan=False, joined=False, address=None,
        since_utc=None if since is None else since.isoformat(), hours=0.0, usd_per_hour=ticket.usd_per_hour,
        cost_usd=0.0,
    )  # fmt: skip
