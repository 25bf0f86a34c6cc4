"""The process that answers costly questions: one at a time, started when needed, ended with the server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from typing import Any

from slacktide.api.limits import TooMuchError
from slacktide.app.question_forms import Setting
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


class BusyError(TooMuchError):
    """So many questions wait that another one would wait for too long."""

    http_status = 503
    retry_after_s = 5


class DiedError(Exception):
    """The process ended in the middle of an answer."""


class Place:
    """The place of a question in the line, and how far its answer is."""

    def __init__(self) -> None:
        self.ahead = 0
        """Questions that come first."""
        self.done = self.total = 0
        """Steps of the answer; none while it is not known how many."""

    def hear(self, told: list[int]) -> None:
        """Take a step into account."""
        self.done, self.total = told


class Asker:
    """Asks the process, starts it when it is not there, and ends it with us: it reads our pipe."""

    def __init__(self, setting: Setting, patience_s: float = PATIENCE_S) -> None:
        self._setting, self._patience_s = setting, patience_s
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._line: list[Place] = []
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def ask(
        self, verb: str, request: dict[str, Any], stamp: object = None, place: Place | None = None
    ) -> dict[str, Any]:
        """Return the answer; one that was given before where `stamp` is what it was then.

        `place` hears where the question stands in the line. Raises AskedError with what the process met,
        BusyError where too many wait, and BackendError where the process fails.
        """
        name = json.dumps([verb, request, stamp])
        if stamp is not None and name in self._known:
            self._known.move_to_end(name)
            return self._known[name]
        if len(self._line) >= MOST_WAITING:
            raise BusyError(f"at most {MOST_WAITING} costly questions may wait, got more; ask again later")
        return await self._in_turn(name, {"verb": verb, "request": request}, stamp, place or Place())

    async def _in_turn(self, name: str, line: dict[str, Any], stamp: object, place: Place) -> dict[str, Any]:
        self._line.append(place)
        self._count()
        try:
            async with self._turn:
                if stamp is not None and name in self._known:  # somebody else asked the same meanwhile
                    return self._known[name]
                found = await self._asked(line, place)
        finally:
            self._line.remove(place)
            self._count()
        if stamp is not None:
            self._known[name] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

    def _count(self) -> None:
        for ahead, place in enumerate(self._line):
            place.ahead = ahead

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _asked(self, line: dict[str, Any], place: Place) -> dict[str, Any]:
        try:
            told = await asyncio.wait_for(self._exchange(line, place), self._patience_s)
        except TimeoutError as error:
            raise BackendError(
                f"a question must be answered in {self._patience_s:g} s, got no answer; ask for less"
            ) from error
        except (DiedError, OSError, ValueError) as error:
            raise BackendError(
                "the process that answers questions must run until it has answered, but it ended; ask again, "
                "and if it ends again, ask for less"
            ) from error
        if "error" in told:
            raise AskedError(told["error"])
        found: dict[str, Any] = told["answer"]
        return found

    async def _exchange(self, line: dict[str, Any], place: Place) -> Any:
        """Send a question and return what comes back; where that is broken off, the process is ended.

        Otherwise an answer that comes late would be taken for the next one's.
        """
        whole = False
        try:
            process = await self._living()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(line).encode() + b"\n")
            await process.stdin.drain()
            while raw := await process.stdout.readline():
                told = json.loads(raw)
                if "progress" not in told:
                    whole = True
                    return told
                place.hear(told["progress"])
            raise DiedError
        finally:
            if not whole:
                await self.close()

    async def _living(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await self._started()
        return self._process

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "slacktide.app.questions",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
        )  # fmt: skip
        assert process.stdin is not None
        kind = form(Setting)
        process.stdin.write(kind.text(kind.plain(self._setting)).encode() + b"\n")
        return process
