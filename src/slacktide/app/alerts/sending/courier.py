"""Tells one hook its alerts, in order and at least once, and waits longer and longer where that fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from slacktide.app.alerts.hook import Hook
from slacktide.app.alerts.sending.outbox import Outbox, Waiting
from slacktide.app.alerts.sending.sending import Sender, send

FIRST_S, LONGEST_S = 1.0, 3600.0
"""Between two tries: it doubles from the first to the longest."""
LEAST_SHARE = 0.5
"""Of a wait that is kept at least; the rest is drawn, so that hooks of one receiver do not come at once."""


def wait_s(failures: int, drawn: float) -> float:
    """Return how long to wait after so many failures in a row; `drawn` is in [0, 1)."""
    longest = min(LONGEST_S, FIRST_S * 2.0 ** min(failures - 1, 30))
    return longest * (LEAST_SHARE + (1.0 - LEAST_SHARE) * drawn)


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
        draw: Callable[[], float] = random.random,
    ) -> None:
        """Name the hook; `complain` hears of trouble, once until it is over."""
        self.hook, self._outbox, self._dashboard, self._complain = hook, outbox, dashboard, complain
        self._sender, self._now_s, self._draw = sender, now_s, draw
        self._failures, self._until_s = 0, 0.0

    def step(self) -> float | None:
        """Send the first alert that waits, if it may be tried now.

        Returns after how many seconds there is more to do: 0 at once, None when there is nothing to send.
        """
        left = self._until_s - self._now_s()
        if self._failures and left > 0.0:
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
        return self._failures > 0

    def _sent(self, found: Waiting) -> float:
        answer = self._sender(self.hook, found.alert, self._dashboard)
        if answer.accepted:
            self._outbox.sent(self.hook.name, found.number)
            if self._failures:
                self._complain(f"{self._who} works again")
            self._failures = 0
            return 0.0
        if answer.final:
            self._outbox.dropped(self.hook.name, found.number, answer.said)
            told = f"got {answer.said} for alert {found.alert.id}"
            self._complain(f"{self._who} must accept alerts, {told}, which is left out")
            self._failures = 0
            return 0.0
        self._outbox.failed(self.hook.name, answer.said)
        self._failures += 1
        if self._failures == 1:
            self._complain(f"{self._who} must accept alerts, got {answer.said}; it is tried again")
        wait = max(answer.wait_s, wait_s(self._failures, self._draw()))
        self._until_s = self._now_s() + wait
        return wait

    @property
    def _who(self) -> str:
        return f"hook {self.hook.name} ({self.hook.shown})"
