"""Answers that take a while: at once when they are there, or as a stream that says how far they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from slacktide.service.hub import STREAM
from slacktide.service.routes.endpoints import caller_of
from slacktide.service.routes.error_responses import error_response
from slacktide.service.service import Service
from slacktide.service.tasks.task_worker import QueuePosition

Answering = Callable[[QueuePosition], Awaitable[dict[str, Any]]]
Failed = Callable[[Exception], Response]
STEP_S = 0.25
"""How often it is looked at how far an answer is."""
STILL_HERE_S = 5.0
"""How often something is said where nothing is new."""


async def run_task(service: Service, request: Request, verb: str, question: Any) -> Response:
    """Have the task process answer a costly request."""
    plain = msgspec.to_builtins(question)

    async def answering(place: QueuePosition) -> dict[str, Any]:
        return await service.tasks.run(verb, plain, place=place)

    return await awaited(request, answering, partial(error_response, service))


async def awaited(request: Request, answering: Answering, on_error: Failed) -> Response:
    """Answer a request; a client that accepts a stream also gets its progress meanwhile.

    The stream has messages `progress` and then one, `answer` or `error`, with the body that would have come
    otherwise.
    """
    if STREAM not in request.headers.get("accept", ""):
        return JSONResponse(await answering(place_of(request)))
    return StreamingResponse(_frames(answering, on_error, place_of(request)), media_type=STREAM)


def place_of(request: Request) -> QueuePosition:
    """Return a place in the line for the sender of a request."""
    return QueuePosition(caller_of(request).name)


async def _frames(answering: Answering, on_error: Failed, place: QueuePosition) -> AsyncIterator[str]:
    task = asyncio.ensure_future(answering(place))
    try:
        async for frame in _steps(task, place):
            yield frame
        yield _last(task, on_error)
    finally:
        task.cancel()  # the client may be gone


async def _steps(task: asyncio.Future[dict[str, Any]], place: QueuePosition) -> AsyncIterator[str]:
    """Yield how far an answer is, whenever that changes, until it is there."""
    before, silent_s = "", 0.0
    while not task.done():
        frame = _frame("progress", {"ahead": place.ahead, "done": place.done, "total": place.total})
        if frame != before or silent_s >= STILL_HERE_S:
            before, silent_s = frame, 0.0
            yield frame
        await asyncio.wait([task], timeout=STEP_S)
        silent_s += STEP_S


def _last(task: asyncio.Future[dict[str, Any]], on_error: Failed) -> str:
    error = task.exception()
    if error is None:
        return _frame("answer", task.result())
    if not isinstance(error, Exception):
        raise error
    answer = on_error(error)
    return _frame("error", {**json.loads(bytes(answer.body)), "status": answer.status_code})


def _frame(kind: str, document: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(document, allow_nan=False)}\n\n"
