"""Waiting for conditions, never for times; and how slow this machine is just now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from campaigns.finding import Finding

PATIENCE_S = 180.0
"""What should take seconds may take this long on a machine that is ten times as slow."""
LOOK_S = 0.02


def wait_until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for something that other processes do; that it never comes is a finding."""
    until = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until:
            raise Finding(f"waited {patience_s:.0f} s in vain: {what}")
        time.sleep(LOOK_S)


class Slowness:
    """Measures by how much this machine oversleeps, so that tolerances grow on one that is busy."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            time.sleep(LOOK_S)
            self.worst_s = max(self.worst_s, time.monotonic() - began - LOOK_S)
