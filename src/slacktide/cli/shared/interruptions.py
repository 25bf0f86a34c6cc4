"""Lets a run continue, or end cleanly, when its terminal or pipe is closed or a signal arrives.

Output to a closed terminal, to a pipe without a reader or to a full disk is dropped, and the run continues.
If a reader stalls, the run waits for it once, for two seconds. Ctrl-C, SIGTERM and a closed terminal become
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
"""Errors when writing to a terminal or pipe whose other end is closed."""
PIECE_BYTES = 512  # by POSIX, a pipe that `select` reports as writable takes this many bytes without blocking
STALLED_S = 2.0  # how long to wait for a reader that does not read
LEFT_OUT = b"\n(some lines were left out here: they were not read in time)\n"
OUTPUTS = (1, 2)  # file descriptors of stdout and stderr
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP = "stop"  # the value of --on-hangup with which closing the terminal stops the run


@contextmanager
def steady_output() -> Iterator[None]:
    """Keep stdout and stderr from raising or blocking while the block runs."""
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
    """End the block quietly when the reader of its output has gone: for the command that is no error."""
    try:
        yield
        if sys.stdout is not None:  # None if it was already closed when the program started
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        with suppress(OSError):
            discard_output(sys.stdout.fileno())  # what is left in buffers is flushed there at exit


def discard_output(descriptor: int) -> None:
    """Discard everything written to a file descriptor from now on, also by child processes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _steady(stream: TextIO) -> TextIO:
    """Return a stream to the same file that never raises; a stream without a file is returned unchanged."""
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
            # `select` promises room only for one piece at a time; a longer write could block.
            for start in range(0, len(content), PIECE_BYTES):
                self._write(content[start : start + PIECE_BYTES])
        except OSError as error:
            if error.errno in GONE:
                discard_output(self._descriptor)
        # Report all of it as written, or the buffer on top would try the rest again.
        return len(content)

    def _write(self, piece: bytes) -> None:
        # Wait only once: a reader that has stalled must not delay every further line.
        wait_s = 0.0 if self._stalled else STALLED_S
        ready = select.select([], [self._descriptor], [], wait_s)[1]
        if ready and self._stalled:
            os.write(self._descriptor, LEFT_OUT)
        if ready:
            os.write(self._descriptor, piece)
        self._stalled = not ready


class StopRequests:
    """Counts signals that ask for a stop while the block runs, which they would otherwise interrupt."""

    def __init__(self, on_hangup: str = STOP) -> None:
        """Set what a closed terminal means: `stop`, or `continue` without a screen."""
        self.count = 0
        """How often a stop was requested."""
        self._on_hangup = on_hangup
        self._before: dict[signal.Signals, Any] = {}
        self._terminals: list[int] = []

    def __call__(self) -> bool:
        """Whether the run is to be stopped."""
        return self.count > 0

    def note(self) -> str:
        """Return a line about the stop for the screen; empty if none was requested."""
        if not self.count:
            return ""
        words = "the workers checkpoint, then all GPUs are released"
        return f"stopping: {words}" if self.count == 1 else f"already stopping: {words}"

    def __enter__(self) -> Self:
        self._terminals = [descriptor for descriptor in OUTPUTS if os.isatty(descriptor)]
        for number in SIGNALS:
            # If SIGHUP is ignored already, as under nohup, the user wants the run to continue.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore(*SIGNALS)

    def over(self) -> None:
        """Let Ctrl-C and SIGTERM interrupt again: the GPUs are released, and the bill may take a while."""
        self._restore(signal.SIGINT, signal.SIGTERM)

    def _restore(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            if number in self._before:
                signal.signal(number, self._before.pop(number))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # A handler may run between any two instructions, so it only counts; the run's loop acts on the count.
        self.count += number != signal.SIGHUP or self._on_hangup == STOP
        for descriptor in self._terminals:
            if not os.isatty(descriptor):  # it was a terminal at the start, so that was closed
                discard_output(descriptor)
