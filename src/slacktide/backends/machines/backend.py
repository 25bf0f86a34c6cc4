"""The base of back ends whose workers run on other machines, rented or not, over any link to their agents."""

from __future__ import annotations

import dataclasses
import math
import queue
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.backends.base import BackendStatus, PoolRoom
from slacktide.backends.machines.agent.messages import Host, Link
from slacktide.backends.machines.machine_workers import MEET_S, MachineWorkers
from slacktide.backends.workers.worker_backend import WorkerBackend
from slacktide.core.errors import BackendError
from slacktide.core.types import Order
from slacktide.journal.events import Capacity
from slacktide.journal.state.tickets import Fact, MachineKind, MachineLog, Tickets
from slacktide.providers.base import Need, Renting, Stock, Use
from slacktide.providers.reconciler import Reconciler

STEP_S = 2.0  # how often the provider is asked for its machines when nothing has changed
SOON_S = 0.2  # how soon again when something has changed


class ReconcileRequest(NamedTuple):
    """What a step of the reconciler has to achieve."""

    want: Mapping[MachineKind, int]
    use: Use
    now_hours: float


class HandedMachineLog:
    """The reconciler's machine log: its notes are written in order by the thread that owns the journal."""

    def __init__(self, tickets: Tickets) -> None:
        self.notes: queue.SimpleQueue[tuple[tuple[Fact, ...], Future[Tickets]]] = queue.SimpleQueue()
        self.closed = False
        self.seen = tickets

    def note(self, *facts: Fact) -> None:
        """Have facts written down, and wait until they are."""
        done: Future[Tickets] = Future()
        if self.closed:
            raise BackendError("the controller has ended")
        self.notes.put((facts, done))
        self.seen = done.result()

    def tickets(self) -> Tickets:
        """Return the tickets as of the last note."""
        return self.seen


class ReconcilerThread:
    """Runs a reconciler in a thread; the thread that owns the journal calls all methods."""

    def __init__(
        self, renting: Renting, diary: MachineLog, now_hours: Callable[[], float],
        now: Callable[[], float] = time.monotonic, *, waits: bool = False,
    ) -> None:  # fmt: skip
        """Write to a diary; with `waits` (for tests) a poll returns when the reconciler needs the next
        one."""
        self._diary, self._now_hours, self._now, self._waits = diary, now_hours, now, waits
        self._handed = HandedMachineLog(_copy(diary.tickets()))
        self._reconciler = Reconciler(renting.provider, self._handed, renting.rules)
        self._requests: queue.SimpleQueue[ReconcileRequest | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Stock] = queue.SimpleQueue()
        self._stepping = False
        self._stepped_at = -math.inf
        self._last: ReconcileRequest | None = None
        self.stock = Stock(listed=False)  # the machines at the last step that got a list of them
        self.trouble = ""
        threading.Thread(target=self._go_round, daemon=True, name="slacktide-keeper").start()

    def poll(self, want: Mapping[MachineKind, int], use: Use) -> Stock:
        """Write the reconciler's notes, take its results and begin its next step; return the machines."""
        self._write()
        while not self._results.empty():
            self._take(self._results.get())
        now = self._now()
        request = ReconcileRequest(dict(want), use, self._now_hours())
        pause_s = STEP_S if self._last is not None and request[:2] == self._last[:2] else SOON_S
        if not self._stepping and now - self._stepped_at >= pause_s:
            self._last, self._stepping, self._stepped_at = request, True, now
            self._handed.seen = _copy(self._diary.tickets())
            self._requests.put(request)
        while self._waits and self._stepping and self._handed.notes.empty() and self._results.empty():
            time.sleep(0)
        return self.stock

    def close(self) -> None:
        """Let the thread end; notes that it waits for are refused, so that it makes no more requests."""
        self._handed.closed = True
        self._requests.put(None)
        while not self._handed.notes.empty():
            _, done = self._handed.notes.get()
            done.set_exception(BackendError("the controller has ended"))

    def _write(self) -> None:
        """Write the notes the reconciler waits for; if that fails it gets the error and requests nothing."""
        while not self._handed.notes.empty():
            facts, done = self._handed.notes.get()
            hours = self._now_hours()
            try:
                self._diary.note(*(_at(fact, hours) for fact in facts))
            except Exception as error:
                done.set_exception(error)
                raise
            done.set_result(_copy(self._diary.tickets()))

    def _take(self, stock: Stock) -> None:
        self._stepping = False
        self.trouble = stock.trouble
        if stock.listed:
            self.stock = stock

    def _go_round(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self._results.put(self._reconciler.step(request.want, request.now_hours, request.use))
            except Exception as error:  # a plug-in may raise anything; the next step tries again
                self._results.put(Stock(trouble=f"the machines could not be kept: {error}", listed=False))


def _at(fact: Fact, hours: float) -> Fact:
    # It counts from when it is written down: the step that found it may have begun earlier.
    return dataclasses.replace(fact, at_hours=max(fact.at_hours, hours))


def _copy(tickets: Tickets) -> Tickets:
    return Tickets(dict(tickets.open), dict(tickets.closed), tickets.count, dict(tickets.leaked))


FULL_S = 600.0  # how long a kind of machine counts as unavailable after it could not be rented
SILENT_S = 120.0
"""A machine that has not answered for this long is ended, even if its provider says that it is up."""


class NodeAccess(NamedTuple):
    """How machines are reached."""

    link: Link
    lease_s: float  # how long workers go on without a message from their controller
    head: str = ""  # the address that rented machines join
    token: str = ""  # the file with the token for that
    now: Callable[[], float] = time.monotonic  # seconds of a monotonic clock
    threads: bool = True
    """Whether threads exchange messages between calls; if not, call `machines.loop.turn`."""


@dataclass(slots=True)
class MachineBackend(WorkerBackend):
    """Workers on other machines; subclasses say how those are reached."""

    machine_workers: MachineWorkers = field(init=False)
    _renting: Renting | None = field(init=False, default=None)
    _keeping: ReconcilerThread | None = field(init=False, default=None)
    _full_at: dict[MachineKind, float] = field(init=False, default_factory=dict)
    """When a kind of machine was last found to be unavailable."""
    _pools: dict[str, str] = field(init=False, default_factory=dict)  # the pool where each job's machines are
    _swept: dict[str, Order] = field(init=False, default_factory=dict)
    """Orders of an earlier controller for jobs that have not been ordered again yet."""
    _began_at: float = field(init=False)
    _threads: bool = field(init=False)

    def __post_init__(self) -> None:
        given = self.node_access()
        self.now_s, self._began_at, self._threads = given.now, given.now(), given.threads
        self.workers = self.machine_workers = MachineWorkers(
            self.place.folder, self.place.owner, given.link, given.lease_s, given.now, threads=given.threads
        )
        if self.place.renting is not None:
            self._renting = self.place.renting(given.head, given.token)

    @abstractmethod
    def node_access(self) -> NodeAccess:
        """Return how machines are reached, without connecting to anything yet."""

    def hold_workers(self, order: Order, kinds: tuple[Capacity, ...], not_before: float) -> None:
        pool = order.pool if self._renting is None else self._renting.pool(order.pool)
        self._pools[order.job] = pool
        self._swept.pop(order.job, None)
        WorkerBackend.hold_workers(self, order._replace(pool=pool), kinds, not_before)

    def sweep(self, orders: Sequence[Order]) -> None:
        """Adopt the workers of these orders, and keep their machines until they are ordered again."""
        WorkerBackend.sweep(self, orders)
        self._swept |= {order.job: order for order in orders if not order.ending}

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        """Rent and end machines as the orders need, then look as any back end of workers does."""
        gone = self._keep(self._renting) if self._renting is not None else []
        self.machine_workers.machines.gone = [*gone, *self.ended_hosts()]
        return WorkerBackend.look(self, jobs)

    def ended_hosts(self) -> Iterable[str]:
        """Return machines on which nothing runs any more for sure."""
        return ()

    def room(self, pool: str) -> PoolRoom:
        """Return how many GPUs of each kind exist or, as far as is known, can be rented."""
        if self._renting is None:
            return self.machine_workers.room(pool)
        name = self._renting.pool(pool)
        existing = self.machine_workers.room(name)
        full, renting = self._full, self._renting
        return PoolRoom(
            existing.spot_gpus if ("spot", name) in full else renting.most("spot", name),
            existing.on_demand_gpus if ("on-demand", name) in full else renting.most("on-demand", name),
        )

    @property
    def _full(self) -> set[tuple[Capacity, str]]:
        """The kinds of machines, with their pools, that were lately unavailable."""
        now = self.now_s()
        return {(spec.kind, spec.pool) for spec, at in self._full_at.items() if now - at < FULL_S}

    @property
    def rented(self) -> int:
        """How many rented machines have not been seen to end."""
        if self._renting is None:
            return 0
        strays = 0 if self._keeping is None else self._keeping.stock.strays
        return len(self.place.diary.tickets().open) + strays

    @property
    def renting_trouble(self) -> str:
        """Why it cannot rent or end machines as it should; empty when it can."""
        return "" if self._keeping is None else self._keeping.trouble

    def close(self) -> None:
        """End threads and connections; machines and workers keep running."""
        if self._keeping is not None:
            self._keeping.close()
        WorkerBackend.close(self)

    # ---------------------------------------------------------------- renting

    def _keep(self, renting: Renting) -> list[str]:
        """Rent and end machines as needed, and return those that have ended according to their provider."""
        if self._keeping is None:
            self._keeping = ReconcilerThread(
                renting, self.place.diary, self.place.now_hours, self.now_s, waits=not self._threads
            )
        needs = list(self._needs())
        stock = self._keeping.poll(renting.wanted(needs), self._use())
        machines = self.machine_workers.machines
        tickets = {machine.host.id: self._ticket(machine.host, stock) for machine in machines.all()}
        machines.ours = [host for host, ticket in tickets.items() if ticket in stock.machines]
        self._full_at |= dict.fromkeys(stock.full, self.now_s())
        self.machine_workers.full = [pool for kind, pool in self._full if kind == "spot"]
        self.machine_workers.waits_for = renting.lacking(needs) or self._keeping.trouble or self._why(needs)
        return [host for host, ticket in tickets.items() if ticket in stock.gone]

    def _why(self, needs: Sequence[Need]) -> str:
        """Say which of the needed machines were lately unavailable."""
        for need in needs:
            if need[:2] in self._full:
                return f"no {need.kind} machine is available in pool {need.pool} just now"
        return ""

    def _needs(self) -> Iterator[Need]:
        assert self._renting is not None
        for order in self._swept.values():
            pool = self._renting.pool(order.pool)
            gpus = (Need("on-demand", pool, order.on_demand_gpus), Need("spot", pool, order.spot_gpus))
            yield from (need for need in gpus if need.gpus)
        for job, kinds in self.machine_workers.wanted().items():
            for kind in dict.fromkeys(kinds):
                yield Need(kind, self._pools[job], kinds.count(kind))

    def _use(self) -> Use:
        """Say which machines have joined, which are no longer of use, and which run workers."""
        assert self._keeping is not None
        machines, now = self.machine_workers.machines, self.now_s()
        stock, ready = self._keeping.stock, set()
        unfit: dict[str, str] = {}
        tickets = {machine.host.id: self._ticket(machine.host, stock) for machine in machines.all()}
        up = {tickets[machine.host.id] for machine in machines.all() if machine.host.alive}
        busy = self._unmet(set(tickets.values()))
        for machine in machines.all():
            ticket = tickets[machine.host.id]
            if not ticket:
                continue
            if machine.accepted_at > 0.0 and machine.host.alive:
                ready.add(ticket)
            if self.machine_workers.is_busy(machine.host.id):
                busy.add(ticket)
            elif ticket not in up and machines.is_fenced(machine.host.id, now):  # none of its nodes is up
                unfit[ticket] = "it has left the cluster"
            elif machine.host.alive and now - max(machine.last_answer_at, machine.met_at) > SILENT_S:
                unfit[ticket] = "it has not answered for too long"
        return Use(ready=ready, unfit=unfit, busy=busy)

    def _unmet(self, met: set[str]) -> set[str]:
        """Return the tickets of machines that joined before this controller began and were not seen since."""
        if self.now_s() - self._began_at > MEET_S:
            return set()
        joined = (name for name, ticket in self.place.diary.tickets().open.items() if ticket.machine)
        return {name for name in joined if name not in met}

    def _ticket(self, host: Host, stock: Stock) -> str:
        """Return a machine's ticket: as it says, by its id, or by an address that no other machine has."""
        if host.ticket:
            return host.ticket
        for ticket, machine in stock.machines.items():
            if machine.id == host.id:
                return ticket
        by_address = [ticket for ticket, machine in stock.machines.items() if machine.address == host.address]
        addresses = [known.host.address for known in self.machine_workers.machines.all()]
        return by_address[0] if len(by_address) == addresses.count(host.address) == 1 else ""
