"""Alerts of a running controller: one thread looks the journal through, one for each hook tells it.

None of them ever holds up the engine: it only says that there is something new, and takes over what is to be
said about hooks.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from slacktide.app.alerts.hook import AlertsFile, Hook
from slacktide.app.alerts.sending.courier import Courier
from slacktide.app.alerts.sending.outbox import HookStatus, Outbox
from slacktide.app.alerts.sending.sending import Sender, send
from slacktide.app.alerts.teller import Teller
from slacktide.core.errors import SlacktideError
from slacktide.engine.job.blocked_jobs import said
from slacktide.journal.store.sqlite import SqliteStore

RETRY_S = 5.0
"""How long after trouble with the disk it is tried again."""
LOOK_S = 60.0
"""How often it is looked whether there is something new though nobody said so."""
GRACE_S = 6.0
"""How long hooks have for what waits when the controller ends; the rest is sent by the next one."""


class Alerting:
    """Tells hooks of what happens in a journal, while the block runs."""

    def __init__(
        self, journal: Path, file: AlertsFile, dashboard: str = "", *, sender: Sender = send
    ) -> None:
        """Name the journal, who is to be told, and where browsers find the server unless the file says so."""
        self._journal, self._file, self._sender = journal, file, sender
        self._dashboard = file.dashboard or dashboard
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._more = threading.Condition()
        self._seq, self._round = 0, 0
        self._stopping, self._told_all = False, threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._outbox = Outbox(self._journal)
        self._store = SqliteStore(self._journal, create=False)
        self._teller = Teller(self._store, self._outbox)
        self._start(self._tell, "alerts")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._more:
            self._stopping = True
            self._more.notify_all()
        until = time.monotonic() + GRACE_S
        for thread in self._threads:  # the first one may still start others, and ends first
            thread.join(max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self._store.close()
            self._outbox.close()

    def heard(self, seq: int) -> None:
        """Say up to which event there is something in the journal; returns at once."""
        if seq != self._seq:
            with self._more:
                self._seq = seq
                self._more.notify_all()

    def said(self) -> Iterator[str]:
        """Yield what is to be said about hooks, once."""
        while not self._said.empty():
            yield self._said.get()

    def statuses(self) -> list[HookStatus]:
        """Say where every hook stands."""
        return self._outbox.statuses()

    # ---------------------------------------------------------------- looking the journal through

    def _tell(self) -> None:
        begun = troubled = False
        while True:
            stopping, seq = self._stopping, self._seq
            try:
                self._look(begun)
                begun = begun or self._begin()
                troubled = False
            except Exception as error:  # an alert that cannot be made must not end all others unseen
                if not troubled:
                    self._said.put(f"they must be found and kept, got: {said(error)}; it is tried again")
                troubled = True
                self._read_again()
            if stopping:
                self._told_all.set()
                self._wake()
                return
            self._await_news(seq, RETRY_S if troubled else LOOK_S)

    def _look(self, begun: bool) -> None:
        told = self._teller.catch_up()
        if self._stopping or not begun:
            self._teller.keep()
        if told:
            self._wake()

    def _begin(self) -> bool:
        """Let the hooks begin, once all of the past was looked through: a new one is told nothing of it."""
        self._outbox.know([hook.name for hook in self._file.hooks])
        for hook in self._file.hooks:
            self._start(partial(self._carry, hook), f"hook-{hook.name}")
        return True

    def _read_again(self) -> None:
        """Begin again from what was kept; nothing is lost, because what was not kept is found again."""
        with suppress(SlacktideError):  # the same trouble, and it is tried again
            self._teller = Teller(self._store, self._outbox)

    def _await_news(self, seq: int, wait_s: float) -> None:
        with self._more:
            self._more.wait_for(lambda: self._stopping or self._seq != seq, wait_s)

    # ---------------------------------------------------------------- telling hooks

    def _carry(self, hook: Hook) -> None:
        courier = Courier(hook, self._outbox, self._dashboard, self._said.put, sender=self._sender)
        troubled = False
        while True:
            last, number = self._told_all.is_set(), self._round
            try:
                wait_s, troubled = courier.step(), False
            except Exception as error:  # whatever it is, the hook goes on where it was
                if not troubled:
                    self._said.put(
                        f"hook {hook.name} must keep working, got: {said(error)}; it is tried again"
                    )
                wait_s, troubled = RETRY_S, True
            if wait_s == 0.0:
                continue
            if last:
                return  # nothing more to send, or nobody takes it: the next controller goes on
            self._await_alerts(number, wait_s)

    def _await_alerts(self, number: int, wait_s: float | None) -> None:
        with self._more:
            self._more.wait_for(lambda: self._round != number or self._told_all.is_set(), wait_s)

    def _wake(self) -> None:
        with self._more:
            self._round += 1
            self._more.notify_all()

    def _start(self, run: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
