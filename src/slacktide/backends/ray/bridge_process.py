"""One life of a bridge process, with threads that read what it says and write what it is to carry."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slacktide.backends.machines.agent.messages import AgentMessage, read_frame, write_frame
from slacktide.backends.process_table import send_group
from slacktide.backends.ray.frames import Beat, Reply, Sending
from slacktide.backends.ray.settings import client_environ

BEGIN_S = 30.0
"""How long Python may take to start on a busy machine."""
REFUSED = ("InvalidAuthToken", "Unauthenticated", "AuthenticationError")
"""What Ray prints when a token is wrong or missing, while it goes on trying."""
KEPT_LINES = 50


class Start(NamedTuple):
    """What a bridge is started with."""

    address: str
    owner: str
    lease_s: float
    idle_s: float
    token: Path | None


class BridgeProcess:
    """A bridge process and the threads that speak with it."""

    def __init__(self, start: Start, on_frame: Callable[[BridgeProcess, Beat | Reply], None]) -> None:
        self._start, self._on_frame = start, on_frame
        command = [sys.executable, "-m", "slacktide.backends.ray.bridge", start.address, start.owner]
        self._process = subprocess.Popen(
            [*command, f"{start.lease_s:g}", f"{start.idle_s:g}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env=client_environ(os.environ, start.address, start.token),
        )  # fmt: skip
        self._began = time.monotonic()
        self._last_frame_at: float | None = None
        self._trouble = ""
        self._printed: deque[str] = deque(maxlen=KEPT_LINES)
        self._waiting: dict[str, AgentMessage] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._threads = [
            threading.Thread(target=do, daemon=True) for do in (self._read, self._drain, self._write)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Its process, which leads a group and a session of its own."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    @property
    def age_s(self) -> float:
        """How long it has been there."""
        return time.monotonic() - self._began

    @property
    def silent_s(self) -> float:
        """For how long it has said nothing; at first it is given time to begin."""
        if self._last_frame_at is None:
            return max(0.0, self.age_s - BEGIN_S)
        return time.monotonic() - self._last_frame_at

    def why(self) -> str:
        """Return why it cannot connect, in a sentence, as far as it is known."""
        if any(word in line for line in list(self._printed) for word in REFUSED):
            where = f"into {self._start.token}" if self._start.token else "where RAY_AUTH_TOKEN_PATH says"
            return (
                f"the Ray cluster at {self._start.address} must be given its token, got another or none; "
                f"put the right one {where}"
            )
        return self._trouble

    def send(self, host: str, message: AgentMessage) -> None:
        """Have a message carried; an older one to the same node that has not been written yet is dropped."""
        with self._changed:
            self._waiting[host] = message
            self._changed.notify()

    def kill(self) -> None:
        """End it at once, with all that it started."""
        send_group(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with self._changed:
            self._ended = True
            self._changed.notify()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):
                pipe and pipe.close()

    def _read(self) -> None:
        assert self._process.stdout
        with suppress(EOFError, OSError):
            while True:
                frame: Beat | Reply = read_frame(self._process.stdout)
                self._last_frame_at = time.monotonic()
                if isinstance(frame, Beat) and frame.trouble:
                    self._trouble = frame.trouble
                self._on_frame(self, frame)

    def _drain(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._printed.append(line.decode(errors="replace"))

    def _write(self) -> None:
        assert self._process.stdin
        with suppress(OSError):
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._ended or self._waiting)
                    if self._ended:
                        return
                    host = next(iter(self._waiting))
                    message = self._waiting.pop(host)
                write_frame(self._process.stdin, Sending(host, pickle.dumps(message)))
