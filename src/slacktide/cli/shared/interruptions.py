"""Lets a run continue, or end cleanly, when its terminal or pipe is closed or a signal comes.

Output to a closed terminal, to a pipe without a reader or to a full disk is dropped, and the run continues. A
reader that has stalled is waited for once, for two seconds. Ctrl-C, SIGTERM and a closed terminal become
requests to stop.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

GONE = (errno.EPIPE, errno.EIO, errno.ENXIO, errno.EBADF)
"""Errors of a terminal or pipe whose other end is closed for good."""
PIECE_BYTES = 512  # POSIX: a pipe that is reported as writable takes this many bytes without blocking
STALLED_S = 2.0  # how long to wait for a reader that does not read
LEFT_OUT = b"\n(some lines were left out here: they were not read in time)\n"
OUTPUTS = (1, 2)  # descriptors that may be a terminal
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP = "stop"  # what a run does when its terminal is closed, unless it continues without a screen


@contextmanager
def steady_output() -> Iterator[None]:
    """Let no output in the block fail or block, wherever it goes."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _steady(sys.stdout), _steady(sys.stderr)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and not stream.closed:
                stream.flush()
        sys.stdout, sys.stderr = before


@contextmanager
def until_pipe_closes() -> Iterator[None]:
    """Print until the reader of a pipe or a terminal is gone, which is not an error of the command."""
    try:
        yield
        if sys.stdout is not None:  # None: it was closed when the program started
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        with suppress(OSError):
            discard_output(sys.stdout.fileno())  # what is left in buffers goes there when the process ends


def discard_output(descriptor: int) -> None:
    """Discard everything written to a descriptor from now on, also by child processes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _steady(stream: TextIO) -> TextIO:
    """Return a stream to the same file that never fails; a stream without a file is returned as it is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        stream.flush()
        raw = _Steady(stream.fileno())
    except OSError:
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=stream.line_buffering
    )


class _Steady(io.RawIOBase):
    """Writes to a file descriptor as long as its reader takes the output."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stalled = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: ReadableBuffer, /) -> int:
        content = bytes(data)
        try:
            # `select` promises room for one piece at a time; a longer write could block.
            for start in range(0, len(content), PIECE_BYTES):
                self._write(content[start : start + PIECE_BYTES])
        except OSError as error:
            if error.errno in GONE:
                discard_output(self._descriptor)
        # All of it counts as written, or the buffer above would try the rest again.
        return len(content)

    def _write(self, piece: bytes) -> None:
        # Waits once: a reader that stalled before must not delay every further line.
        wait_s = 0.0 if self._stalled else STALLED_S
        ready = select.select([], [self._descriptor], [], wait_s)[1]
        if ready and self._stalled:
            os.write(self._descriptor, LEFT_OUT)
        if ready:
            os.write(self._descriptor, piece)
        self._stalled = not ready


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
                discard_output(descriptor)
