"""The process that answers costly questions: started when the first one comes, one question at a time."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from typing import Any

from slacktide.api.limits import TooMuchError
from slacktide.app.questions import Setting
from slacktide.errors import BackendError
from slacktide.store.json_types import form

MOST_WAITING = 16
LINE_BYTES = 64 * 1024 * 1024
PATIENCE_S = 300.0
"""How long an answer may take; the first back-test on a machine compiles for half a minute."""
KEPT = 512
"""Answers that are remembered."""


class AskedError(Exception):
    """What the process answered instead of an answer."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["message"])
        self.told = told


class Asker:
    """Asks the process, starts it when it is not there, and ends it with us: it reads our pipe."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def ask(self, verb: str, request: dict[str, Any], stamp: object = None) -> dict[str, Any]:
        """Return the answer; one that was given before where `stamp` is what it was then.

        Raises AskedError with what the process met, TooMuchError where too many wait, and BackendError where
        the process fails.
        """
        name = json.dumps([verb, request, stamp])
        if stamp is not None and name in self._known:
            self._known.move_to_end(name)
            return self._known[name]
        if self._waiting >= MOST_WAITING:
            raise TooMuchError(f"at most {MOST_WAITING} costly questions may wait, got more; ask again later")
        self._waiting += 1
        try:
            async with self._turn:
                if stamp is not None and name in self._known:  # somebody else asked the same meanwhile
                    return self._known[name]
                found = await self._asked({"verb": verb, "request": request})
        finally:
            self._waiting -= 1
        if stamp is not None:
            self._known[name] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _asked(self, line: dict[str, Any]) -> dict[str, Any]:
        try:
            told = await asyncio.wait_for(self._exchange(line), PATIENCE_S)
        except (TimeoutError, OSError, ValueError, asyncio.CancelledError) as error:
            await self.close()  # an answer that comes late must not be taken for the next one's
            if isinstance(error, asyncio.CancelledError):
                raise
            raise BackendError(
                f"the question must be answered in {PATIENCE_S:g} s, got none; ask for less"
            ) from error
        if "error" in told:
            raise AskedError(told["error"])
        found: dict[str, Any] = told["answer"]
        return found

    async def _exchange(self, line: dict[str, Any]) -> Any:
        if self._process is None or self._process.returncode is not None:
            self._process = await self._started()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(line).encode() + b"\n")
        await process.stdin.drain()
        return json.loads(await process.stdout.readline())

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "slacktide.app.questions",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
        )  # fmt: skip
        assert process.stdin is not None
        kind = form(Setting)
        process.stdin.write(kind.text(kind.plain(self._setting)).encode() + b"\n")
        return process
