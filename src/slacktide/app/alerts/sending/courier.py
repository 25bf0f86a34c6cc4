"""Tells one hook its alerts, in order and at least once, and waits longer and longer where that fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from slacktide.app.alerts.hook import Hook
from slacktide.app.alerts.sending.outbox import Outbox, Waiting
from slacktide.app.alerts.sending.sending import Sender, send
from slacktide.core.waits import GrowingWait

FIRST_S, LONGEST_S = 1.0, 3600.0
"""Between two tries: it doubles from the first to the longest."""


class Courier:
    """Sends what waits for one hook."""

    def __init__(
        self,
        hook: Hook,
        outbox: Outbox,
        dashboard: str,
        complain: Callable[[str], None],
        *,
        sender: Sender = send,
        now_s: Callable[[], float] = time.monotonic,
        wait: GrowingWait | None = None,
    ) -> None:
        """Name the hook; `complain` hears of trouble, once until it is over."""
        self.hook, self._outbox, self._dashboard, self._complain = hook, outbox, dashboard, complain
        self._sender, self._now_s = sender, now_s
        self._wait, self._until_s = wait or GrowingWait(FIRST_S, LONGEST_S), 0.0

    def step(self) -> float | None:
        """Send the first alert that waits, if it may be tried now.

        Returns after how many seconds there is more to do: 0 at once, None when there is nothing to send.
        """
        left = self._until_s - self._now_s()
        if self.is_waiting and left > 0.0:
            return left
        found = self._outbox.next(self.hook.name)
        if found is None:
            return None
        if not self.hook.wants(found.alert):
            self._outbox.passed(self.hook.name, found.number)
            return 0.0
        return self._sent(found)

    @property
    def is_waiting(self) -> bool:
        """Whether its receiver did not take the last alert, which is tried again later."""
        return self._wait.failures > 0

    def _sent(self, found: Waiting) -> float:
        answer = self._sender(self.hook, found.alert, self._dashboard)
        if answer.accepted:
            self._outbox.sent(self.hook.name, found.number)
            if self.is_waiting:
                self._complain(f"{self._who} works again")
            self._wait.reset()
            return 0.0
        if answer.final:
            self._outbox.dropped(self.hook.name, found.number, answer.said)
            told = f"got {answer.said} for alert {found.alert.id}"
            self._complain(f"{self._who} must accept alerts, {told}, which is left out")
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
