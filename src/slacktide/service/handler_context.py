"""The parts of the server that request handlers share: the journal's reader, the engine, tokens, tasks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from slacktide.app.alerts.outbox import HookStatus
from slacktide.core.errors import SlacktideError
from slacktide.journal.state.journal_state import RequestAnswer
from slacktide.service.access import Doorkeeper, Slots, TooMuchError, error_body
from slacktide.service.hub import STREAM, Hub
from slacktide.service.journal_reader import JournalReader
from slacktide.service.metrics import STEP_BOUNDS_S, Counts, Histogram
from slacktide.service.routes.endpoints import MARK, Endpoint, caller_of
from slacktide.service.tasks.task_worker import QueuePosition, TaskError, TaskWorker

PUMP_S = 0.1  # how often new events are read, for streams and for waiting requests
TIDY_S = 600.0  # how often unneeded files of jobs are removed
DISK_S = 5.0  # how long the result of a disk check is reused
LISTENERS, LISTENERS_EACH = 64, 32
SENDERS, SENDERS_EACH = 12, 4
"""Uploads at a time: disk space is set aside for the largest possible size of each."""
LATE_S = 30.0
"""An engine that has not made a step for this long is unhealthy; compiling a policy takes less."""
STEP_S = 0.25  # how often the progress of an answer is checked
STILL_HERE_S = 5.0
"""How often unchanged progress is sent again, so that a dead connection is noticed."""
Answering = Callable[[QueuePosition], Awaitable[dict[str, Any]]]
Failed = Callable[[Exception], Response]


class EngineWatch:
    """What request handlers can see of the engine, which runs in another thread."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.steps, self.stepped_s = 0, 0.0
        """Steps so far, and when the last one ended, in seconds of the monotonic clock."""
        self.gaps = Histogram(
            "slacktide_engine_step_gap_seconds", "Time between two steps of the engine.", STEP_BOUNDS_S
        )
        self.now_hours: Callable[[], float] = lambda: 0.0
        self.hooks: Callable[[], list[HookStatus]] = list
        """Returns the state of the hooks for alerts."""

    @property
    def is_well(self) -> bool:
        return not self.done.is_set() and time.monotonic() - self.stepped_s < LATE_S

    def stepped(self) -> None:
        now = time.monotonic()
        if self.steps:
            self.gaps.add(now - self.stepped_s)
        self.steps, self.stepped_s = self.steps + 1, now


@dataclass(slots=True)
class HandlerContext:
    """The parts of the server that handlers use."""

    reader: JournalReader
    engine: EngineWatch
    keeper: Doorkeeper
    tasks: TaskWorker
    hub: Hub
    say: Callable[[str], None]
    counts: Counts = field(default_factory=Counts)
    listeners: Slots = field(default_factory=lambda: Slots(LISTENERS, LISTENERS_EACH, "listeners"))
    senders: Slots = field(default_factory=lambda: Slots(SENDERS, SENDERS_EACH, "uploads at a time"))
    warm_after_s: float | None = None
    """How long after its start the server compiles the code of costly tasks; None: never."""
    _disk: tuple[float, bool] = (float("-inf"), True)

    async def pump(self) -> None:
        """Read and publish new events for as long as the server runs."""
        while True:
            with contextlib.suppress(OSError, SlacktideError):  # it may be readable later
                news, seq = await self.reader.run(self.reader.news)
                if news or seq > self.hub.seq:
                    self.hub.publish(news, seq)
            await asyncio.sleep(PUMP_S)

    async def tidy(self) -> None:
        """Remove unneeded files of jobs, every TIDY_S seconds."""
        while True:
            with contextlib.suppress(OSError, SlacktideError):
                await self.reader.run(self.reader.tidy)
            await asyncio.sleep(TIDY_S)

    async def warm_up(self) -> None:
        """Compile the code of costly tasks in another process, at low priority.

        That process reads a pipe from this one, so it ends with the server even if the server is killed.
        """
        if self.warm_after_s is None:
            return
        await asyncio.sleep(self.warm_after_s)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "slacktide.service.tasks.task_process", "warm-up",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def answered(self, key: str, wait_s: float) -> RequestAnswer | None:
        """Wait up to `wait_s` for the controller's answer to a request; None if it has not come by then."""
        until = time.monotonic() + wait_s
        while True:
            seq, answer = self.hub.seq, await self.reader.run(self.reader.answer, key)
            left = until - time.monotonic()
            if answer is not None or left <= 0 or self.hub.closed:
                return answer
            await self.hub.changed(seq, left)

    def disk_is_writable(self) -> bool:
        """Whether the journal's folder can be written to, checked at most DISK_S seconds ago."""
        at_s, known = self._disk
        if time.monotonic() - at_s > DISK_S:
            known = is_writable(self.reader.path.parent)
            self._disk = time.monotonic(), known
        return known

    def error_response(self, error: Exception) -> Response:
        """Return the HTTP answer for an error, without the server's folders in the message."""
        if isinstance(error, TaskError):
            kind, message = error.details["kind"], error.details["message"]
            exit_code, status = error.details["exit_code"], error.details["status"]
        elif isinstance(error, SlacktideError):
            kind, message = type(error).__name__, str(error)
            exit_code, status = error.exit_code, error.http_status
        else:
            kind, message, exit_code, status = "InternalError", "something went wrong here", 1, 500
            self.say(f"internal error: {type(error).__name__}")
        headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, TooMuchError) else None
        body = error_body(kind, self.reader.paths.out_of(message), exit_code)
        return JSONResponse(body, status, headers)


@contextlib.asynccontextmanager
async def pumping(context: HandlerContext) -> AsyncIterator[None]:
    """Run the background tasks (reading events, removing files, compiling) while the block runs."""
    tasks = [asyncio.create_task(work) for work in (context.pump(), context.tidy(), context.warm_up())]
    try:
        yield
    finally:
        context.hub.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await context.tasks.close()


class Routes:
    """A group of request handlers: each method marked with `endpoint` answers one address."""

    def __init__(self, context: HandlerContext) -> None:
        self._context, self._reader = context, context.reader

    def endpoints(self) -> Iterator[Endpoint]:
        for name, method in vars(type(self)).items():
            if hasattr(method, MARK):
                yield Endpoint(handler=getattr(self, name), **getattr(method, MARK))

    async def _run_task(self, request: Request, verb: str, question: Any) -> Response:
        plain = msgspec.to_builtins(question)
        run = partial(self._context.tasks.run, verb, plain, None)
        return await awaited(request, run, self._context.error_response)


def place_of(request: Request) -> QueuePosition:
    """Return a new position in the queue of costly requests, for the sender of this request."""
    return QueuePosition(caller_of(request).name)


async def awaited(request: Request, answering: Answering, on_error: Failed) -> Response:
    """Answer a costly request; a client that accepts a stream also gets its progress.

    The stream has `progress` messages and then one `answer` or `error` with the body that other clients get.
    """
    place = place_of(request)
    if STREAM not in request.headers.get("accept", ""):
        return JSONResponse(await answering(place))
    return StreamingResponse(_frames(answering, on_error, place), media_type=STREAM)


async def _frames(answering: Answering, on_error: Failed, place: QueuePosition) -> AsyncIterator[str]:
    """Yield the progress whenever it changes, or every STILL_HERE_S seconds, and then the answer."""
    task, before, silent_s = asyncio.ensure_future(answering(place)), "", 0.0
    try:
        while not task.done():
            frame = _frame("progress", {"ahead": place.ahead, "done": place.done, "total": place.total})
            if frame != before or silent_s >= STILL_HERE_S:
                before, silent_s = frame, 0.0
                yield frame
            await asyncio.wait([task], timeout=STEP_S)
            silent_s += STEP_S
        error = task.exception()
        if isinstance(error, Exception):
            answer = on_error(error)
            yield _frame("error", {**json.loads(bytes(answer.body)), "status": answer.status_code})
        else:
            yield _frame("answer", task.result())
    finally:
        task.cancel()  # if the client has gone, nobody needs the answer


def _frame(kind: str, document: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(document, allow_nan=False)}\n\n"


def is_writable(folder: Path) -> bool:
    probe = folder / f".slacktide-probe-{os.getpid()}"
    try:
        probe.write_bytes(b"1")
        probe.unlink()
    except OSError:
        return False
    return True
