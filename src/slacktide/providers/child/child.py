"""A child process that answers questions in lines of JSON, within a time limit; killed when it does not."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from typing import Any

from slacktide.core.errors import SlacktideError
from slacktide.providers.base import NoCapacity, Refused, Spent, Unreachable

END_S = 1.0
NOES: dict[str, type[SlacktideError]] = {
    "capacity": NoCapacity,
    "spent": Spent,
    "unreachable": Unreachable,
    "refused": Refused,
}


class Lost(Exception):
    """The child did not answer: perhaps what was asked was done."""


class Child:
    """Begun with the first question, and again after it was lost; ends with this object and its process."""

    def __init__(self, module: str, **environment: str) -> None:
        """Name the module that the child runs, and variables that it has beside our own."""
        self._command = [sys.executable, "-P", "-m", module]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0

    def ask(self, question: dict[str, Any], patience_s: float) -> dict[str, Any]:
        """Ask, and wait for the answer; raises Lost when there is none in time."""
        give_up = time.monotonic() + patience_s
        self._asked += 1
        try:
            process = self._begun()
            assert process.stdin is not None
            process.stdin.write(json.dumps({**question, "id": self._asked}).encode() + b"\n")
            process.stdin.flush()
            return self._answer(process, give_up)
        except (OSError, ValueError, Lost) as error:
            self.close()
            raise error if isinstance(error, Lost) else Lost(str(error)) from error

    def found(self, question: dict[str, Any], patience_s: float, who: str) -> Any:
        """Ask, and return what was found; raises what a provider raises."""
        try:
            answer = self.ask(question, patience_s)
        except Lost as error:
            raise Unreachable(f"{who} did not answer: {error}") from error
        if "no" in answer:
            raise NOES[answer["no"]](str(answer["why"]))
        return answer["found"]

    def close(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _begun(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            # A terminal's Ctrl-C is not for the child, and nothing of the present folder is imported.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
            weakref.finalize(self, _end, self._process)
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], give_up: float) -> dict[str, Any]:
        assert process.stdout is not None
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, give_up - time.monotonic())):
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    raise Lost("the process that asks has ended")
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    answer: dict[str, Any] = json.loads(line)
                    if answer.get("id") == self._asked:
                        return answer
        raise Lost("it took too long")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):  # it has ended already
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
