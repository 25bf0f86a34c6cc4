"""Run a Python module in a process of its own and exchange JSON objects with it, one per line.

For libraries that may block, crash or end their process. Only the standard library is imported here, because
some children run on machines that have little else.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

END_S = 1.0  # how long a child may take to end after its input was closed
PIECE_BYTES = 1 << 16


class ChildProcess:
    """The parent's side. The child starts with the first message, and again with the next one after it ended.

    It ends when this object is collected, and at the latest with this process, which closes its input.
    """

    def __init__(self, module: str, env: Mapping[str, str] | None = None) -> None:
        """Name the module that the child runs, and variables to add to our own environment."""
        self._module, self._env = module, env or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._at_end: weakref.finalize[[], ChildProcess] | None = None
        self._rest = b""
        self.closed_output = False
        """Whether the child has closed its output, and will send nothing more."""

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is no child."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The child's exit code; None while it runs or when there is no child."""
        return None if self._process is None else self._process.poll()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message, to a new child if there is none; raises OSError where that fails."""
        if self.exit_code is not None:
            self.close()
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()

    def receive(self, patience_s: float = 0.0) -> list[dict[str, Any]]:
        """Return the messages that have come since, in order, after waiting up to `patience_s` for any bytes.

        Raises ValueError for a line that is not JSON.
        """
        if self._process is None:
            return []
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            selector.select(patience_s)
        received = bytearray(self._rest)
        with suppress(BlockingIOError):
            while piece := os.read(self._process.stdout.fileno(), PIECE_BYTES):
                received += piece
            self.closed_output = True
        *lines, self._rest = bytes(received).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self, patience_s: float = END_S) -> None:
        """End the child: close its input, and kill it if it still runs after `patience_s`."""
        process, self._process = self._process, None
        if self._at_end is not None:
            self._at_end.detach()
        if process is not None:
            _end(process, patience_s)

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            # -P: a file in the current folder must not stand in for a library that the child imports.
            [sys.executable, "-P", "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self._env},
            start_new_session=True,  # Ctrl-C in a terminal reaches a whole group; we end the child ourselves
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._at_end = weakref.finalize(self, partial(_end, self._process, END_S))
        self._rest, self.closed_output = b"", False
        return self._process


def _end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    with suppress(OSError):  # it has ended, so what is still buffered for it cannot be written
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


class ParentProcess:
    """The child's side: create it once, before any library can print."""

    def __init__(self) -> None:
        # Answers keep the real standard output; what a library prints goes to standard error instead.
        self._output = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._sending = threading.Lock()
        self._requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def requests(self) -> Iterator[dict[str, Any]]:
        """Yield requests forever: the process ends by itself when the parent closes its input."""
        while True:
            yield self._requests.get()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message; may be called from any thread. Ends the process if the parent is gone."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._output.write(line)
                self._output.flush()
        except OSError:
            os._exit(0)

    def _read(self) -> None:
        """Read in a thread of its own, so that the end of the input is noticed while a library blocks."""
        for line in sys.stdin.buffer:
            self._requests.put(json.loads(line))
        os._exit(0)
