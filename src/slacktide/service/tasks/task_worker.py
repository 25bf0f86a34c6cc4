"""Hands costly requests to the task process: one at a time, in fair turns, within a time limit."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, OrderedDict
from typing import Any

import msgspec

from slacktide.app.jobs.submission import FleetText
from slacktide.app.markets.market import MarketSpec
from slacktide.app.task_requests import OutOfMemoryError, Request
from slacktide.core.errors import BackendError
from slacktide.core.register import Spec
from slacktide.service.access import TooMuchError

MOST_WAITING, MOST_OF_EACH = 16, 8  # requests in the queue: of all callers, and of one
LINE_BYTES = 64 * 1024 * 1024  # the longest answer
PATIENCE_S = 300.0  # how long a request may take; the first back-test on a machine compiles for half a minute
KEPT = 512  # answers that are remembered


class Setting(Request, frozen=True):
    """What the task process must know about its server."""

    journal: str
    market: MarketSpec = MarketSpec()  # the server's own, used if a request and its job file name none
    fleet: FleetText | None = None  # the server's fleet file
    allocator: Spec | None = None  # the fleet's allocator; None: the one in the fleet file
    learned: str | None = None
    """The file with what was learned about policies; None: the default one of the server's user account."""


class TaskError(Exception):
    """An error that the task process sent as its answer."""

    def __init__(self, details: dict[str, Any]) -> None:
        super().__init__(details["message"])
        self.details = details


class BusyError(TooMuchError):
    """The queue of costly requests is full."""

    http_status = 503
    retry_after_s = 5


class StoppingError(BusyError):
    """The server is stopping, and answers no more costly requests."""

    def __init__(self) -> None:
        super().__init__("requests must wait until the server runs again, got one while it stops; try again")


class DiedError(Exception):
    """The task process ended in the middle of a request."""


class QueuePosition:
    """The position of a request in the queue, and its progress."""

    def __init__(self, caller: str = "") -> None:
        """Name the caller: callers take turns."""
        self.caller, self.turn = caller, asyncio.Event()
        self.ahead = 0
        """How many requests come first."""
        self.done = self.total = 0
        """Steps of the work that are done, and all of them; both are 0 until their number is known."""


class TaskWorker:
    """Runs tasks in the task process, which is started when needed and ends when our pipe to it closes."""

    def __init__(self, setting: Setting, patience_s: float = PATIENCE_S) -> None:
        self._setting, self._patience_s = setting, patience_s
        self._process: asyncio.subprocess.Process | None = None
        self._line: list[QueuePosition] = []
        """All requests that wait or run, in the order of arrival."""
        self._current: QueuePosition | None = None
        self._turn, self._turns = 0, Counter[str]()
        """The number of turns so far, and the number of each caller's last turn."""
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._stopping = False

    async def run(
        self, verb: str, request: dict[str, Any], stamp: object = None, place: QueuePosition | None = None
    ) -> dict[str, Any]:
        """Return the answer to a request: a cached one if the same request came before with the same `stamp`.

        A `stamp` of None caches nothing. `place` is updated with the position in the queue. Raises TaskError
        for an error in the task, BusyError if too many requests wait, and BackendError if the process fails.
        """
        name = json.dumps([verb, request, stamp])
        if stamp is not None and name in self._known:
            self._known.move_to_end(name)
            return self._known[name]
        if self._stopping:
            raise StoppingError
        place = place or QueuePosition()
        own = sum(waiting.caller == place.caller for waiting in self._line)
        if len(self._line) >= MOST_WAITING or own >= MOST_OF_EACH:
            raise BusyError(
                f"at most {MOST_WAITING} costly requests may wait, {MOST_OF_EACH} of each caller, got more; "
                "try again later"
            )
        return await self._in_turn(name, {"verb": verb, "request": request}, stamp, place)

    async def _in_turn(
        self, name: str, line: dict[str, Any], stamp: object, place: QueuePosition
    ) -> dict[str, Any]:
        self._line.append(place)
        self._arrange()
        try:
            await place.turn.wait()
            if self._stopping:
                raise StoppingError
            if stamp is not None and name in self._known:  # the same request was answered meanwhile
                return self._known[name]
            found = await self._processed(line, place)
        finally:
            self._line.remove(place)
            self._arrange()
        if stamp is not None:
            self._known[name] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

    def _arrange(self) -> None:
        """Update each position in the queue, and start the next request if none is running.

        Callers take turns: the next request is the oldest one of the caller whose last turn was longest ago.
        """
        if self._current not in self._line:
            self._current = None
        ahead, turns = 0, Counter(self._turns)
        waiting = [place for place in self._line if place is not self._current]
        if self._current is not None:
            self._current.ahead, ahead = 0, 1
        while waiting:
            place = min(waiting, key=lambda position: turns[position.caller])
            waiting.remove(place)
            place.ahead, turns[place.caller] = ahead, self._turn + ahead + 1
            if self._current is None:
                self._turn += 1
                self._current, self._turns[place.caller] = place, self._turn
                place.turn.set()
            ahead += 1

    def stop(self) -> None:
        """Stop the queue: all waiting requests, the one that runs included, fail at once."""
        self._stopping = True
        for place in self._line:
            place.turn.set()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _processed(self, line: dict[str, Any], place: QueuePosition) -> dict[str, Any]:
        try:
            reply = await asyncio.wait_for(self._exchange(line, place), self._patience_s)
        except TimeoutError as error:
            raise BackendError(
                f"a request must be answered in {self._patience_s:g} s, got no answer; request less"
            ) from error
        except (DiedError, OSError, ValueError) as error:
            if self._stopping:
                raise StoppingError from error
            raise BackendError(
                "the task process must run until it has answered, but it ended; try again, "
                "and if it ends again, request less"
            ) from error
        if "error" in reply:
            raise TaskError(reply["error"])
        found: dict[str, Any] = reply["answer"]
        return found

    async def _exchange(self, line: dict[str, Any], place: QueuePosition) -> Any:
        """Send a request and return the reply.

        If interrupted, the process is killed: a late reply would be taken for that of the next request.
        """
        whole = False
        try:
            process = await self._living()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(line).encode() + b"\n")
            await process.stdin.drain()
            while raw := await process.stdout.readline():
                reply = json.loads(raw)
                if "progress" not in reply:
                    # A process that ran out of memory may still hold much of it, so it is killed, too.
                    whole = reply.get("error", {}).get("kind") != OutOfMemoryError.__name__
                    return reply
                place.done, place.total = reply["progress"]
            raise DiedError
        finally:
            if not whole:
                await self.close()

    async def _living(self) -> asyncio.subprocess.Process:
        """Return the task process, and start it if none is running."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "slacktide.service.tasks.task_process",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
            )  # fmt: skip
            if self._stopping:  # `stop` was called while it started, and found no process to kill
                raise DiedError
            assert self._process.stdin is not None
            self._process.stdin.write(msgspec.json.encode(self._setting) + b"\n")
        return self._process
