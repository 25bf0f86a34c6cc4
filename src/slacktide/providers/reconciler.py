"""Rents and ends machines until what is rented matches what is wanted. Nothing else rents machines.

A ticket is written down before the provider receives it, and closed before its machine is ended. So at any
crash an open ticket without a machine is requested again, which gives no second one, and a machine without
an open ticket is ended. All that must survive a crash is in the journal and in the provider's list; what the
reconciler remembers only says how long to wait. `slacktide machines sweep` ends machines, too, if asked.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from slacktide.core.waits import RetryTable
from slacktide.journal.events import Cause, Joined, Leaked, Reclaimed, Rented, Returned
from slacktide.journal.state.tickets import MachineKind, MachineLog, Ticket, Tickets
from slacktide.providers.base import (
    INTERRUPTED,
    Machine,
    NoCapacity,
    Provider,
    Refused,
    Rules,
    Spent,
    Stock,
    Unreachable,
    Use,
)

LAST = datetime.max.replace(tzinfo=UTC)
USD_TOLERANCE = 1e-9  # what sums of prices may be off by
NOT_WANTED = "not wanted any more"
MINUTES = 60.0


@dataclass(slots=True)
class ReconcilerMemory:
    """What the reconciler remembers from step to step; losing it costs time and no money."""

    retries: RetryTable
    seen_hours: dict[str, float] = field(default_factory=dict)
    """When each machine was first listed, by its id."""
    alive_hours: dict[str, float] = field(default_factory=dict)
    """When each ticket last had a machine that was alive, or was first looked for."""
    stray_hours: dict[str, float] = field(default_factory=dict)
    """Since when each machine that runs has been without an open ticket, by its id."""
    promised: set[str] = field(default_factory=set)  # the tickets whose request the provider accepted


@dataclass(slots=True)
class ReconcileStep:
    """One step of the reconciler, from one list of the provider's machines."""

    provider: Provider
    diary: MachineLog
    rules: Rules
    memory: ReconcilerMemory
    machines: Sequence[Machine]
    use: Use
    now_hours: float
    token: str
    full: list[MachineKind] = field(default_factory=list, init=False)
    troubles: list[str] = field(default_factory=list, init=False)
    silent: bool = field(default=False, init=False)
    """Whether the provider did not answer a request: nothing more is requested in this step."""
    _of: dict[str, list[Machine]] = field(default_factory=dict, init=False)
    """All machines of each ticket, open or not."""
    _mine: dict[str, Machine] = field(init=False)
    """The machine of each open ticket that has any: one that is alive before one that is not."""

    def __post_init__(self) -> None:
        for machine in self.machines:
            self._of.setdefault(machine.ticket, []).append(machine)
        found = {name: ticket for name, ticket in self._open.items() if name in self._of}
        self._mine = {name: _chosen(ticket, self._of[name]) for name, ticket in found.items()}

    def run(self, want: Mapping[MachineKind, int]) -> Stock:
        """Carry out the step, and return the machines that there are."""
        self._look()
        self._close_what_is_over()
        self._note_joined()
        self._close_what_is_too_much(want)
        self._end_strays()
        self._note_leaked()
        self._request_open()
        self._open_what_is_missing(want)
        self._forget()
        alive = {name: machine for name in self._open if (machine := self._alive(name)) is not None}
        return Stock(
            machines=alive,
            full=tuple(self.full),
            trouble="; ".join(dict.fromkeys(self.troubles)),
            gone=frozenset(
                name for name, found in self._of.items() if all(one.state == "gone" for one in found)
            ),
            strays=len(self._strays()),
        )

    @property
    def _tickets(self) -> Tickets:
        return self.diary.tickets()

    @property
    def _open(self) -> dict[str, Ticket]:
        return self.diary.tickets().open

    def _look(self) -> None:
        memory, now = self.memory, self.now_hours
        for machine in self.machines:
            memory.seen_hours.setdefault(machine.id, now)
            if machine.alive:
                memory.alive_hours[machine.ticket] = now
        for name in self._open:
            memory.alive_hours.setdefault(name, now)

    def _alive(self, ticket: str) -> Machine | None:
        machine = self._mine.get(ticket)
        return machine if machine is not None and machine.alive else None

    def _strays(self) -> list[Machine]:
        """Return the machines that no open ticket explains and that have not gone.

        A second machine of one ticket is among them, though no provider should ever make one.
        """
        mine = {ticket: self._mine.get(ticket) for ticket in self._open}
        return [one for one in self.machines if one.state != "gone" and one is not mine.get(one.ticket)]

    def _forget(self) -> None:
        """Drop what is neither listed nor open any more, so that months do not fill the memory."""
        memory, tickets = self.memory, self._tickets
        memory.retries.tidy(self.now_hours)
        if len(memory.seen_hours) > 2 * len(self.machines) + 64:
            listed = {machine.id for machine in self.machines}
            memory.seen_hours = {name: at for name, at in memory.seen_hours.items() if name in listed}
        if len(memory.alive_hours) > 2 * (len(tickets.open) + len(tickets.closed)) + 64:
            known = {*tickets.open, *tickets.closed}
            memory.alive_hours = {name: at for name, at in memory.alive_hours.items() if name in known}
            memory.promised &= known

    # ---------------------------------------------------------------- closing

    def _close_what_is_over(self) -> None:
        over = [found for ticket in self._open.values() if (found := self._over(ticket)) is not None]
        if over:
            self.diary.note(*over)

    def _over(self, ticket: Ticket) -> Returned | None:
        """Return the fact that closes a ticket whose machine is gone or of no use."""
        name, machine = ticket.id, self._mine.get(ticket.id)
        if name in self.use.unfit:
            return self._returned(name, self.use.unfit[name], "unfit")
        if machine is None:
            return self._unlisted(ticket)
        if not machine.alive:
            return self._ended(name, machine)
        waited = self.now_hours - self.memory.seen_hours[machine.id]
        if waited > self.rules.join_within_hours and not self._is_ready(ticket, machine):
            self.memory.retries.after_failure(("join", ticket.spec[:2]), self.now_hours)
            why = f"it did not join within {_minutes(self.rules.join_within_hours)}"
            return self._returned(name, why, "never-joined")
        return None

    def _unlisted(self, ticket: Ticket) -> Returned | None:
        """Close a ticket whose machine was there, or promised, and has not been listed for too long."""
        unseen = self.now_hours - self.memory.alive_hours[ticket.id]
        if ticket.machine and unseen > self.rules.listed_within_hours:
            return self._returned(ticket.id, f"it was not listed any more for {_minutes(unseen)}", "unlisted")
        if unseen > self.rules.join_within_hours and ticket.id in self.memory.promised:
            return self._returned(ticket.id, f"it was never listed within {_minutes(unseen)}", "unlisted")
        return None

    def _ended(self, ticket: str, machine: Machine) -> Returned:
        """Return the fact that closes a ticket whose machine has ended, or is about to."""
        gone, until = machine.state == "gone", machine.until_utc
        closed = self._returned(
            ticket,
            machine.why or "it is gone",
            "interrupted" if machine.why == INTERRUPTED else "gone",
            left=not gone,
        )
        return replace(closed, ended_utc=until.isoformat()) if gone and until is not None else closed

    def _returned(self, ticket: str, why: str, cause: Cause, *, left: bool = True) -> Returned:
        return Returned(at_hours=self.now_hours, ticket=ticket, why=why, left=left, cause=cause)

    def _close_what_is_too_much(self, want: Mapping[MachineKind, int]) -> None:
        going: list[Returned] = []
        for spec in dict.fromkeys(ticket.spec for ticket in self._open.values()):
            mine = [ticket for ticket in self._open.values() if ticket.spec == spec]
            # The first to go are those that are not ready yet, then the newest.
            newest = list(reversed(mine))
            leaving = sorted(newest, key=lambda ticket: ticket.joined_hours is not None)
            spare = [ticket for ticket in leaving if ticket.id not in self.use.busy]
            excess = max(0, len(mine) - want.get(spec, 0))
            going += [self._returned(ticket.id, NOT_WANTED, "not-wanted") for ticket in spare[:excess]]
        if going:
            self.diary.note(*going)

    # ---------------------------------------------------------------- joining

    def _note_joined(self) -> None:
        joined = [
            Joined(
                at_hours=self.now_hours,
                ticket=ticket.id,
                machine=machine.id,
                address=machine.address,
                boot_hours=max(0.0, self.now_hours - ticket.rented_hours),
            )
            for ticket in self._open.values()
            if ticket.joined_hours is None
            and (machine := self._alive(ticket.id)) is not None
            and self._is_ready(ticket, machine)
        ]
        for event in joined:
            self.memory.retries.reset(("join", self._open[event.ticket].spec[:2]))
        if joined:
            self.diary.note(*joined)

    def _is_ready(self, ticket: Ticket, machine: Machine) -> bool:
        if ticket.joined_hours is not None:
            return True
        return machine.state == "up" if self.use.ready is None else ticket.id in self.use.ready

    # ---------------------------------------------------------------- ending

    def _end_strays(self) -> None:
        """End machines that no open ticket explains, and again after a while if they are still there."""
        retries, now = self.memory.retries, self.now_hours
        ids = [stray.id for stray in self._strays() if retries.is_due(("end", stray.id), now)]
        if not ids:
            return
        for name in ids:
            retries.after_failure(("end", name), now)
        try:
            self.provider.end(ids)
        except (Unreachable, Refused) as error:
            for name in ids:  # it is not known whether it was done: repeat it at the next step
                retries.reset(("end", name))
            self.troubles.append(f"machines could not be ended: {error}")

    def _note_leaked(self) -> None:
        """Note machines that still run although they should have ended, each once, and later their end."""
        running = {stray.id: stray for stray in self._strays() if stray.alive}
        since, known = self.memory.stray_hours, self._tickets.leaked
        self.memory.stray_hours = {name: since.get(name, self.now_hours) for name in running}
        limit_hours, hours = self.rules.leaked_after_hours, self.memory.stray_hours
        overdue = [name for name in running if self.now_hours - hours[name] > limit_hours]
        new = [self._leaked(running[name]) for name in overdue if name not in known]
        over = [Reclaimed(at_hours=self.now_hours, machine=name) for name in known if name not in running]
        if new or over:
            self.diary.note(*new, *over)

    def _leaked(self, machine: Machine) -> Leaked:
        hours = self.now_hours - self.memory.stray_hours[machine.id]
        known = machine.ticket in self._tickets.closed
        why = "its ticket is closed" if known else "no ticket of this journal is for it"
        return Leaked(
            at_hours=self.now_hours, machine=machine.id, ticket=machine.ticket, capacity=machine.spec.kind,
            pool=machine.spec.pool, gpus=machine.spec.gpus, usd_per_hour=self.rules.price(machine.spec),
            stray_hours=hours, why=f"{why}, and it still runs {_minutes(hours)} after it was to be ended",
        )  # fmt: skip

    # ---------------------------------------------------------------- requesting

    def _request_open(self) -> None:
        retries = self.memory.retries
        for ticket in list(self._open.values()):
            unlisted = ticket.id not in self._of and not ticket.machine
            keys = (("rent", ticket.id), ("full", ticket.spec[:2]))
            if unlisted and not self.silent and all(retries.is_due(key, self.now_hours) for key in keys):
                self._request(ticket.id, ticket.spec)

    def _request(self, name: str, spec: MachineKind) -> None:
        """Request the machine of a ticket that has been written down; a final refusal closes the ticket."""
        retries, now = self.memory.retries, self.now_hours
        try:
            self.provider.rent(name, spec)
        except Unreachable as error:
            self.silent = True
            retries.after_failure(("rent", name), now)
            self.troubles.append(f"a machine could not be rented: {error}")
        except NoCapacity as error:
            self.full.append(spec)
            retries.after_failure(("full", spec[:2]), now)
            self.diary.note(self._returned(name, f"no capacity: {error}", "no-capacity", left=False))
        except Spent:
            self.diary.note(self._returned(name, "its machine has come and gone", "spent"))
        except Refused as error:
            retries.after_failure(("full", spec[:2]), now)
            self.troubles.append(f"a machine was refused: {error}")
            self.diary.note(self._returned(name, f"refused: {error}", "refused"))
        else:
            retries.reset(("full", spec[:2]))
            retries.wait_once(("rent", name), now, self.rules.listed_within_hours)
            self.memory.promised.add(name)

    # ---------------------------------------------------------------- opening

    def _open_what_is_missing(self, want: Mapping[MachineKind, int]) -> None:
        for spec, count in want.items():
            have = sum(ticket.spec == spec for ticket in self._open.values())
            while have < count and self._may_open(spec):
                self._open_one(spec)
                have += 1

    def _may_open(self, spec: MachineKind) -> bool:
        retries, key = self.memory.retries, spec[:2]
        if self.silent or not all(retries.is_due((why, key), self.now_hours) for why in ("full", "join")):
            return False
        refused = self._limit(spec)
        self.troubles += [refused] if refused else []
        return not refused

    def _limit(self, spec: MachineKind) -> str:
        """Return which limit one more machine would exceed; empty if none.

        Counted are open tickets, machines that are listed without one, and those of tickets that were closed
        so recently that a late list may not show them.
        """
        rules, tickets, strays = self.rules, self._tickets, self._strays()
        listed = {machine.ticket for machine in strays}

        def may_be_left(ticket: Ticket) -> bool:
            if ticket.id in listed or any(one.state == "gone" for one in self._of.get(ticket.id, ())):
                return False
            seen = max(ticket.returned_hours or 0.0, self.memory.alive_hours.get(ticket.id, 0.0))
            return self.now_hours - seen <= rules.listed_within_hours

        counted = [*tickets.open.values(), *filter(may_be_left, tickets.closed.values())]
        usd, more_usd = sum(one.usd_per_hour for one in counted), rules.price(spec)
        usd += sum(rules.price(machine.spec) for machine in strays)
        machines = len(counted) + len(strays)
        if machines + 1 > rules.max_machines:
            return f"max_machines is {rules.max_machines:g}, and {machines} are rented: no more are"
        if usd + more_usd > rules.max_usd_per_hour + USD_TOLERANCE:
            return (
                f"max_usd_per_hour is {rules.max_usd_per_hour:g}, and {usd:g} are spent: "
                f"no machine for {more_usd:g} is rented"
            )
        return ""

    def _open_one(self, spec: MachineKind) -> None:
        name = f"{self._tickets.count + 1}-{self.token}"
        price = self.rules.price(spec)
        self.diary.note(
            Rented(
                at_hours=self.now_hours, ticket=name, capacity=spec.kind, pool=spec.pool, gpus=spec.gpus,
                usd_per_hour=price,
            )
        )  # fmt: skip
        self.memory.alive_hours[name] = self.now_hours
        self._request(name, spec)


def _chosen(ticket: Ticket, machines: Sequence[Machine]) -> Machine:
    """Return the machine that counts: one that is alive, then the one that joined, then the oldest."""
    if len(machines) == 1:
        return machines[0]
    return min(
        machines, key=lambda one: (not one.alive, one.id != ticket.machine, one.since_utc or LAST, one.id)
    )


def _minutes(hours: float) -> str:
    return f"{hours * MINUTES:.3g} min"


PLAIN_USE = Use()  # nothing is known but what the provider says


class Reconciler:
    """Rents and ends the machines of one journal."""

    def __init__(self, provider: Provider, diary: MachineLog, rules: Rules, *, token: str = "") -> None:
        """Rent from a provider, with the tickets in `diary`; `token` goes into the names of tickets.

        It is random unless given, so that not even a restored copy of the journal uses a name again.
        """
        self.provider, self.diary, self.rules = provider, diary, rules
        self.token = token or secrets.token_hex(3)
        self._memory, self._stepped_hours = self._nothing_known(), -math.inf

    def step(self, want: Mapping[MachineKind, int], now_hours: float, use: Use = PLAIN_USE) -> Stock:
        """List, close, end, request, open: in this order, so that surplus machines end before others begin.

        `want` says how many machines of each kind there should be, the most important first. Raises what the
        diary raises if it cannot be written; then nothing was done that it does not explain.
        """
        if now_hours < self._stepped_hours:  # the clock was set back: all waits are over
            self._memory = self._nothing_known()
        self._stepped_hours = now_hours
        try:
            machines = self.provider.machines()
        except (Unreachable, Refused) as error:
            return Stock(trouble=f"the machines could not be listed: {error}", listed=False)
        step = ReconcileStep(
            self.provider, self.diary, self.rules, self._memory, machines, use, now_hours, self.token
        )
        return step.run(want)

    def _nothing_known(self) -> ReconcilerMemory:
        return ReconcilerMemory(RetryTable(self.rules.first_wait_hours, self.rules.longest_wait_hours))
