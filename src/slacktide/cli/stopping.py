"""Ctrl-C and SIGTERM while jobs run: they are noted, and the run lets go of everything in good order."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Notes requests to stop while the block runs, instead of being interrupted by them."""

    def __init__(self) -> None:
        self.asked = 0
        """How often a stop was asked for."""
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        """Whether the run is to be stopped."""
        return self.asked > 0

    def note(self) -> str:
        """Say what is being done about it; nothing when nobody asked."""
        if not self.asked:
            return ""
        words = "the workers checkpoint, then all GPUs are let go"
        return f"stopping: {words}" if self.asked == 1 else f"already stopping: {words}"

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1
