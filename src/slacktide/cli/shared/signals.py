"""Ctrl-C, SIGTERM and a closed terminal while jobs run: the run lets go of everything in good order."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self

from slacktide.cli.shared.broken_pipe import go_nowhere

OUTPUTS = (1, 2)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP, CONTINUE = "stop", "continue"
"""What to do when the terminal is closed."""


class StopRequests:
    """Notes requests to stop while the block runs, instead of being interrupted by them."""

    def __init__(self, on_hangup: str = STOP) -> None:
        """Say what the end of the terminal means: `stop`, or `continue` without a screen."""
        self.asked = 0
        """How often a stop was asked for."""
        self._on_hangup = on_hangup
        self._before: dict[signal.Signals, Any] = {}
        self._terminals: list[int] = []

    def __call__(self) -> bool:
        """Whether the run is to be stopped."""
        return self.asked > 0

    def note(self) -> str:
        """Say what is being done about it; nothing when nobody asked."""
        if not self.asked:
            return ""
        words = "the workers checkpoint, then all GPUs are released"
        return f"stopping: {words}" if self.asked == 1 else f"already stopping: {words}"

    def __enter__(self) -> Self:
        self._terminals = [descriptor for descriptor in OUTPUTS if os.isatty(descriptor)]
        for number in SIGNALS:
            # Who starts a command with nohup has said already what the end of the terminal means.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back(*SIGNALS)

    def over(self) -> None:
        """Let Ctrl-C and SIGTERM interrupt again: nothing is held any more, and a bill may take a while."""
        self._give_back(signal.SIGINT, signal.SIGTERM)

    def _give_back(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            if number in self._before:
                signal.signal(number, self._before.pop(number))

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked += number != signal.SIGHUP or self._on_hangup == STOP
        for descriptor in self._terminals:
            if not os.isatty(descriptor):  # any more
                go_nowhere(descriptor)
