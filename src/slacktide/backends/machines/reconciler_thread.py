"""The reconciler of machines in a thread of its own, because a provider may take seconds to answer.

What it writes down is written by the thread that owns the journal, when that comes by: the reconciler
waits for it, so a provider receives no request that the journal does not explain.
"""

from __future__ import annotations

import dataclasses
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from slacktide.core.errors import BackendError
from slacktide.journal.state.tickets import Fact, MachineKind, MachineLog, Tickets
from slacktide.providers.base import Stock, Use
from slacktide.providers.reconciler import Reconciler
from slacktide.providers.renting import Renting

STEP_S = 2.0  # how often the machines are listed when nothing else is to be done
SOON_S = 0.2  # how soon again when something has changed


class ReconcileRequest(NamedTuple):
    """What a step is to bring about."""

    want: Mapping[MachineKind, int]
    use: Use
    now_hours: float


class HandedMachineLog:
    """A diary whose notes are written by another thread, in the order in which they come."""

    def __init__(self, tickets: Tickets) -> None:
        self.notes: queue.SimpleQueue[tuple[tuple[Fact, ...], Future[Tickets]]] = queue.SimpleQueue()
        self.closed = False
        self.seen = tickets

    def note(self, *facts: Fact) -> None:
        """Have facts written down, and wait for it."""
        done: Future[Tickets] = Future()
        if self.closed:
            raise BackendError("the controller has ended")
        self.notes.put((facts, done))
        self.seen = done.result()

    def tickets(self) -> Tickets:
        """Return the account as of the last note."""
        return self.seen


class ReconcilerThread:
    """Steps a keeper again and again; all calls come from the thread that owns the journal."""

    def __init__(
        self, renting: Renting, diary: MachineLog, now_hours: Callable[[], float],
        now: Callable[[], float] = time.monotonic, *, waits: bool = False,
    ) -> None:  # fmt: skip
        """Keep by a diary; with `waits` a poll returns when the keeper can go no further without the next."""
        self._diary, self._now_hours, self._now, self._waits = diary, now_hours, now, waits
        self._handed = HandedMachineLog(_copy(diary.tickets()))
        self._keeper = Reconciler(renting.provider, self._handed, renting.rules)
        self._wishes: queue.SimpleQueue[ReconcileRequest | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Stock] = queue.SimpleQueue()
        self._stepping = False
        self._stepped_at = -math.inf
        self._last: ReconcileRequest | None = None
        self.stock = Stock(listed=False)
        """What there was at the last step that got an answer."""
        self.trouble = ""
        threading.Thread(target=self._go_round, daemon=True, name="slacktide-keeper").start()

    def poll(self, want: Mapping[MachineKind, int], use: Use) -> Stock:
        """Write down what is to be written, take in what is known, and begin the next step when it is due."""
        self._write()
        while not self._results.empty():
            self._take(self._results.get())
        now = self._now()
        wish = ReconcileRequest(dict(want), use, self._now_hours())
        pause_s = STEP_S if self._last is not None and wish[:2] == self._last[:2] else SOON_S
        if not self._stepping and now - self._stepped_at >= pause_s:
            self._last, self._stepping, self._stepped_at = wish, True, now
            self._handed.seen = _copy(self._diary.tickets())
            self._wishes.put(wish)
        if self._waits:
            self._settle()
        return self.stock

    def _settle(self) -> None:
        """Wait until the keeper has come to a note, or to the end of its step."""
        while self._stepping and self._handed.notes.empty() and self._results.empty():
            time.sleep(0)

    def close(self) -> None:
        """Let the thread end; what it waits for is refused, so that it makes no more requests."""
        self._handed.closed = True
        self._wishes.put(None)
        while not self._handed.notes.empty():
            _, done = self._handed.notes.get()
            done.set_exception(BackendError("the controller has ended"))

    def _write(self) -> None:
        """Write what the reconciler waits for; if that fails it is its trouble, and nothing is requested."""
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
        while (wish := self._wishes.get()) is not None:
            try:
                self._results.put(self._keeper.step(wish.want, wish.now_hours, wish.use))
            except Exception as error:  # a plug-in may raise anything; nothing is lost, for it is tried again
                self._results.put(Stock(trouble=f"the machines could not be kept: {error}", listed=False))


def _at(fact: Fact, hours: float) -> Fact:
    """Return a fact with the time at which it is written down: the keeper's step may have begun before."""
    return dataclasses.replace(fact, at_hours=max(fact.at_hours, hours))


def _copy(tickets: Tickets) -> Tickets:
    return Tickets(dict(tickets.open), dict(tickets.closed), tickets.count, dict(tickets.leaked))
