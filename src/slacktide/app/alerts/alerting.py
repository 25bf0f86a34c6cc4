"""Alerts of a running controller: one thread reads the journal for alerts, one per hook sends them.

They never hold up the engine: it only tells them that there are new events, and fetches lines about hooks to
report.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from slacktide.app.alerts.alert import Alert, AlertsFile, Hook
from slacktide.app.alerts.outbox import HookStatus, Outbox
from slacktide.app.alerts.sending import Answer, Sender, send
from slacktide.app.alerts.watch import Watch
from slacktide.core.errors import SlacktideError
from slacktide.core.waits import GrowingWait
from slacktide.engine.job.blocked_jobs import error_text
from slacktide.journal.codec.json_forms import FormMismatch, form
from slacktide.journal.store.base import Store
from slacktide.journal.store.sqlite import SqliteStore

RETRY_S = 5.0  # how long to wait after an error, such as one of the disk
LOOK_S = 60.0  # how often to look for something new without being notified
GRACE_S = 6.0  # how long hooks may go on sending when the controller ends; the next one sends the rest
FIRST_S, LONGEST_S = 1.0, 3600.0  # between two tries: it doubles from the first to the longest
EVERY_EVENTS = 500  # after this many events the state is stored even if there was no alert


class Alerting:
    """Sends alerts about a journal to its hooks, while the block runs."""

    def __init__(
        self, journal: Path, file: AlertsFile, dashboard: str = "", *, sender: Sender = send
    ) -> None:
        """Prepare to send; `dashboard` is where browsers find the server, unless the file says that."""
        self._journal, self._file, self._sender = journal, file, sender
        self._dashboard = file.dashboard or dashboard
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._more = threading.Condition()
        self._seq, self._round = 0, 0
        self._stopping, self._found_all = False, threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._outbox = Outbox(self._journal)
        self._store = SqliteStore(self._journal, create=False)
        self._finder = AlertFinder(self._store, self._outbox)
        self._start(self._find, "alerts")
        return self

    def __exit__(self, *error: object) -> None:
        with self._more:
            self._stopping = True
            self._more.notify_all()
        until = time.monotonic() + GRACE_S
        for thread in self._threads:  # the first one may still start others, and ends first
            thread.join(max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self._store.close()
            self._outbox.close()

    def notice(self, seq: int) -> None:
        """Note how far the journal goes by now; returns at once."""
        if seq != self._seq:
            with self._more:
                self._seq = seq
                self._more.notify_all()

    def said(self) -> Iterator[str]:
        """Yield the lines to report about hooks, each once."""
        while not self._said.empty():
            yield self._said.get()

    def statuses(self) -> list[HookStatus]:
        return self._outbox.statuses()

    def _find(self) -> None:
        begun = troubled = False
        while True:
            stopping, seq = self._stopping, self._seq
            try:
                found = self._finder.catch_up()
                if self._stopping or not begun:
                    self._finder.keep()
                if found:
                    self._wake()
                if not begun:
                    self._begin()
                begun, troubled = True, False
            except Exception as error:  # one alert that cannot be made must not silently end all others
                if not troubled:
                    self._said.put(
                        f"they must be found and kept, got: {error_text(error)}; it is tried again"
                    )
                troubled = True
                # Nothing is lost: alerts that were not stored are found again.
                with suppress(SlacktideError):  # the same trouble, and it is tried again
                    self._finder = AlertFinder(self._store, self._outbox)
            if stopping:
                self._found_all.set()
                self._wake()
                return
            with self._more:
                self._more.wait_for(partial(self._has_news, seq), RETRY_S if troubled else LOOK_S)

    def _has_news(self, seq: int) -> bool:
        return self._stopping or self._seq != seq

    def _begin(self) -> None:
        """Start the hooks, after the past was searched: a new hook gets no alerts about the past."""
        self._outbox.know([hook.name for hook in self._file.hooks])
        for hook in self._file.hooks:
            self._start(partial(self._send, hook), f"hook-{hook.name}")

    def _send(self, hook: Hook) -> None:
        sender = HookSender(
            hook, self._outbox, lambda alert: self._sender(hook, alert, self._dashboard), self._said.put
        )
        troubled = False
        while True:
            last, number = self._found_all.is_set(), self._round
            try:
                wait_s, troubled = sender.step(), False
            except Exception as error:  # after any error the hook goes on from where it was
                if not troubled:
                    self._said.put(
                        f"hook {hook.name} must keep working, got: {error_text(error)}; it is tried again"
                    )
                wait_s, troubled = RETRY_S, True
            if wait_s == 0.0:
                continue
            if last:
                return  # nothing more to send, or the receiver is away: the next controller goes on
            with self._more:
                self._more.wait_for(partial(self._has_alerts, number), wait_s)

    def _has_alerts(self, number: int) -> bool:
        return self._round != number or self._found_all.is_set()

    def _wake(self) -> None:
        with self._more:
            self._round += 1
            self._more.notify_all()

    def _start(self, run: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


class AlertFinder:
    """Searches a journal for alerts; stores those of one event before it reads the next."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        """Continue from where the outbox says; if it says nothing, from the present end of the journal."""
        self._store, self._outbox = store, outbox
        present, kept = store.last_seq(), outbox.watched()
        if kept is None or kept[0] > present:  # the second: the journal was replaced by an older copy
            kept = present, ""
        self._silent_seq, body = kept
        """Events up to here lead to no alerts: they were searched before, or came before the first hook."""
        self._watch = _read(body)
        self._kept_seq = self._watch.seq

    def catch_up(self) -> int:
        """Search all new events; return how many alerts were found."""
        count = 0
        for record in self._store.read(after=self._watch.seq):
            alerts = self._watch.apply(record)
            if record.seq <= self._silent_seq:
                alerts = []
            if alerts or self._watch.seq - self._kept_seq >= EVERY_EVENTS:
                self._keep(alerts)
                count += len(alerts)
        return count

    def keep(self) -> None:
        """Store how far the journal was searched."""
        if self._kept_seq != self._watch.seq:
            self._keep([])

    def _keep(self, alerts: list[Alert]) -> None:
        kind = form(Watch)
        self._outbox.keep(self._watch.seq, kind.text(kind.plain(self._watch)), alerts)
        self._kept_seq = self._watch.seq


def _read(body: str) -> Watch:
    """Return the stored state; if another version stored it an empty one, so all events are read again."""
    try:
        watch: Watch = form(Watch).read(json.loads(body))
    except (ValueError, TypeError, FormMismatch):
        return Watch()
    return watch


class HookSender:
    """Sends one hook its alerts, in order and at least once; waits longer after each failure."""

    def __init__(
        self,
        hook: Hook,
        outbox: Outbox,
        deliver: Callable[[Alert], Answer],
        complain: Callable[[str], None],
        *,
        now_s: Callable[[], float] = time.monotonic,
        wait: GrowingWait | None = None,
    ) -> None:
        """Prepare to send with `deliver`; `complain` gets a line when trouble begins or ends."""
        self.hook, self._outbox, self._deliver, self._complain = hook, outbox, deliver, complain
        self._now_s = now_s
        self._wait, self._until_s = wait or GrowingWait(FIRST_S, LONGEST_S), 0.0

    def step(self) -> float | None:
        """Send the first waiting alert, if it may be tried now.

        Returns how many seconds later there is more to do: 0 for at once, None if no alert is waiting.
        """
        left = self._until_s - self._now_s()
        if self.is_waiting and left > 0.0:
            return left
        waiting = self._outbox.next(self.hook.name)
        if waiting is None:
            return None
        number, alert = waiting
        if not self.hook.wants(alert):
            self._outbox.passed(self.hook.name, number)
            return 0.0
        return self._sent(number, alert)

    @property
    def is_waiting(self) -> bool:
        """Whether its receiver did not accept the last alert, which is tried again later."""
        return self._wait.failures > 0

    def _sent(self, number: int, alert: Alert) -> float:
        answer = self._deliver(alert)
        if answer.accepted:
            self._outbox.sent(self.hook.name, number)
            if self.is_waiting:
                self._complain(f"{self._who} works again")
            self._wait.reset()
            return 0.0
        if answer.final:
            self._outbox.dropped(self.hook.name, number, answer.said)
            got = f"got {answer.said} for alert {alert.id}"
            self._complain(f"{self._who} must accept alerts, {got}, which is left out")
            self._wait.reset()
            return 0.0
        self._outbox.failed(self.hook.name, answer.said)
        if not self.is_waiting:
            self._complain(f"{self._who} must accept alerts, got {answer.said}; it is tried again")
        wait_s = self._wait.after_failure(at_least=answer.wait_s)
        self._until_s = self._now_s() + wait_s
        return wait_s

    @property
    def _who(self) -> str:
        return f"hook {self.hook.name} ({self.hook.shown})"
