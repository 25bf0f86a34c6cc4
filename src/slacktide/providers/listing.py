"""What a provider listed, sorted by the tickets that are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from slacktide.journal.state.tickets import Ticket
from slacktide.providers.base import Machine

LAST = datetime.max.replace(tzinfo=UTC)


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
