"""The hard limits: how many machines there may be, and what they may cost an hour, ending ones included."""

from __future__ import annotations

from collections.abc import Mapping

from slacktide.journal.state.tickets import MachineKind, Ticket, Tickets
from slacktide.providers.listing import Listing
from slacktide.providers.rules import Rules

USD_TOLERANCE = 1e-9
"""What sums of prices may be off by."""


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
