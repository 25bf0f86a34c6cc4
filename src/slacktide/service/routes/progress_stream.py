"""Answers that take a while: sent when they are complete, or as a stream that reports progress until then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from slacktide.service.hub import STREAM
from slacktide.service.tasks.task_worker import QueuePosition

Answering = Callable[[QueuePosition], Awaitable[dict[str, Any]]]
Failed = Callable[[Exception], Response]
STEP_S = 0.25  # how often the progress of an answer is checked
STILL_HERE_S = 5.0
"""How often progress is sent again where it has not changed, so that a dead connection is noticed."""


async def awaited(request: Request, answering: Answering, place: QueuePosition, on_error: Failed) -> Response:
    """Answer a request; a client that accepts a stream also gets its progress meanwhile.

    The stream has messages `progress` and then one, `answer` or `error`, with the body that would have come
    otherwise.
    """
    if STREAM not in request.headers.get("accept", ""):
        return JSONResponse(await answering(place))
    return StreamingResponse(_frames(answering, on_error, place), media_type=STREAM)


async def _frames(answering: Answering, on_error: Failed, place: QueuePosition) -> AsyncIterator[str]:
    task = asyncio.ensure_future(answering(place))
    try:
        async for frame in _steps(task, place):
            yield frame
        yield _last(task, on_error)
    finally:
        task.cancel()  # the client may be gone


async def _steps(task: asyncio.Future[dict[str, Any]], place: QueuePosition) -> AsyncIterator[str]:
    """Yield the progress of an answer, whenever it changes, until the answer is complete."""
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
