"""What a provider listed, sorted by open tickets, and which limit one more machine would pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from slacktide.journal.state.tickets import MachineKind, Ticket, Tickets
from slacktide.providers.base import Machine, Rules

LAST = datetime.max.replace(tzinfo=UTC)
USD_TOLERANCE = 1e-9  # what sums of prices may be off by


class Listing:
    """One answer of a provider, sorted by tickets."""

    def __init__(self, machines: Sequence[Machine], open_tickets: Mapping[str, Ticket]) -> None:
        """Sort machines by their tickets."""
        self.machines = machines
        self.of: dict[str, list[Machine]] = {}
        """All machines of each ticket, open or not."""
        for machine in machines:
            self.of.setdefault(machine.ticket, []).append(machine)
        self.mine = {
            name: _chosen(ticket, self.of[name]) for name, ticket in open_tickets.items() if name in self.of
        }
        """The machine of each open ticket that has any: one that is alive before one that is not."""

    def alive(self, ticket: str) -> Machine | None:
        """Return the machine of an open ticket, if it is alive."""
        machine = self.mine.get(ticket)
        return machine if machine is not None and machine.alive else None

    def strays(self, open_tickets: Mapping[str, Ticket]) -> list[Machine]:
        """Return the machines that no open ticket explains and that have not gone.

        A second machine of one ticket is among them, though no provider should ever make one.
        """
        return [
            machine
            for machine in self.machines
            if machine.state != "gone"
            and not (machine.ticket in open_tickets and machine is self.mine[machine.ticket])
        ]


def _chosen(ticket: Ticket, machines: Sequence[Machine]) -> Machine:
    """Return the machine that counts: alive, the one that joined, the oldest."""
    if len(machines) == 1:
        return machines[0]
    return min(
        machines, key=lambda one: (not one.alive, one.id != ticket.machine, one.since_utc or LAST, one.id)
    )


def limit(
    spec: MachineKind,
    rules: Rules,
    tickets: Tickets,
    listing: Listing,
    alive_hours: Mapping[str, float],
    now_hours: float,
) -> str:
    """Say which limit one more machine would pass; nothing where it would pass none.

    Counted are open tickets, machines that are listed without one, and those of tickets that were closed so
    lately that a late list may not show them; `alive_hours` says when each ticket was last seen alive.
    """
    strays = listing.strays(tickets.open)
    listed = {machine.ticket for machine in strays}

    def may_be_left(ticket: Ticket) -> bool:
        if ticket.id in listed or any(one.state == "gone" for one in listing.of.get(ticket.id, ())):
            return False
        seen = max(ticket.returned_hours or 0.0, alive_hours.get(ticket.id, 0.0))
        return now_hours - seen <= rules.listed_within_hours

    counted = [*tickets.open.values(), *filter(may_be_left, tickets.closed.values())]
    usd = sum(one.usd_per_hour for one in counted) + sum(rules.price(machine.spec) for machine in strays)
    return _passed(rules, len(counted) + len(strays), usd, rules.price(spec))


def _passed(rules: Rules, machines: int, usd_per_hour: float, more_usd_per_hour: float) -> str:
    if machines + 1 > rules.max_machines:
        return f"max_machines is {rules.max_machines:g}, and {machines} are rented: no more are"
    if usd_per_hour + more_usd_per_hour > rules.max_usd_per_hour + USD_TOLERANCE:
        return (
            f"max_usd_per_hour is {rules.max_usd_per_hour:g}, and {usd_per_hour:g} are spent: "
            f"no machine for {more_usd_per_hour:g} is rented"
        )
    return ""
