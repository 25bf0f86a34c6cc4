"""Turns Ctrl-C, SIGTERM and a closed terminal into requests to stop, so that a run can end cleanly."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self

from slacktide.cli.shared.broken_pipe import go_nowhere

OUTPUTS = (1, 2)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP, CONTINUE = "stop", "continue"  # what to do when the terminal is closed


class StopRequests:
    """Notes requests to stop while the block runs, instead of being interrupted by them."""

    def __init__(self, on_hangup: str = STOP) -> None:
        """Set what closing the terminal means: `stop`, or `continue` without a screen."""
        self.count = 0
        """How often a stop was requested."""
        self._on_hangup = on_hangup
        self._before: dict[signal.Signals, Any] = {}
        self._terminals: list[int] = []

    def __call__(self) -> bool:
        """Whether the run is to be stopped."""
        return self.count > 0

    def note(self) -> str:
        """Describe what is being done about a request; empty without one."""
        if not self.count:
            return ""
        words = "the workers checkpoint, then all GPUs are released"
        return f"stopping: {words}" if self.count == 1 else f"already stopping: {words}"

    def __enter__(self) -> Self:
        self._terminals = [descriptor for descriptor in OUTPUTS if os.isatty(descriptor)]
        for number in SIGNALS:
            # Under nohup SIGHUP is ignored, which already says what a closed terminal means: keep it so.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore(*SIGNALS)

    def over(self) -> None:
        """Let Ctrl-C and SIGTERM interrupt again: all GPUs are released; a bill may take a while."""
        self._restore(signal.SIGINT, signal.SIGTERM)

    def _restore(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            if number in self._before:
                signal.signal(number, self._before.pop(number))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # A handler runs between any two instructions: it only counts, and the loop of the run acts on it.
        self.count += number != signal.SIGHUP or self._on_hangup == STOP
        for descriptor in self._terminals:
            if not os.isatty(descriptor):  # it was one at the start, so the terminal is gone
                go_nowhere(descriptor)
