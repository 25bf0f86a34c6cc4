"""A child process that exchanges frames with us over pipes: one thread writes to it, another reads.

Frames are pickled values, unlike the JSON lines of `core.child_process`: messages to agents contain zip files
of up to 100 MB. Writing has a thread of its own because a full pipe would block the caller.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from slacktide.backends.machines.agent.messages import read_frame, write_frame
from slacktide.backends.process_table import send_group


class FrameProcess:
    """A child process and the two threads that exchange frames with it."""

    def __init__(self, command: Sequence[str], on_frame: Callable[[Any], None], **options: Any) -> None:
        """Start it, with further options of Popen; `on_frame` is called in the thread that reads."""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self._on_frame = on_frame
        self._waiting: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._writer.start()
        self._reader.start()

    def send(self, key: str, frame: Any) -> None:
        """Write a frame; an older one of this key that has not been written yet is dropped."""
        with self._changed:
            self._waiting[key] = frame
            self._changed.notify()

    def close(self, patience_s: float) -> None:
        """Close its input once all is written, and wait for its end; kill it if that takes longer."""
        self._finish()
        self._reader.join(patience_s)
        if self._reader.is_alive():
            self.process.kill()
        self._join()

    def kill_session(self) -> None:
        """Kill it at once with all that it started; it must lead a session of its own."""
        send_group(self.process.pid, signal.SIGKILL)
        self._finish()
        self._join()

    def _finish(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _join(self) -> None:
        self._writer.join()
        self._reader.join()

    def _write(self) -> None:
        assert self.process.stdin
        with suppress(OSError, ValueError):
            while (frame := self._next()) is not None:
                write_frame(self.process.stdin, frame)
        with suppress(OSError):  # the child may have ended with something of ours still buffered
            self.process.stdin.close()

    def _next(self) -> Any:
        """Wait for a frame; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._waiting)
            return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def _read(self) -> None:
        assert self.process.stdout
        try:
            while True:
                self._on_frame(read_frame(self.process.stdout))
        except (EOFError, OSError, ValueError):
            pass  # it has ended, or was killed in the middle of a frame
        finally:
            self.process.stdout.close()
            self.process.wait()  # without this the child would stay as a zombie
