"""Routes for events: what happened to one job or to all, in pages or as a live stream."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractContextManager
from typing import Annotated, Literal

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from slacktide.core.errors import InputError, shown
from slacktide.service.handler_context import HandlerContext, Routes
from slacktide.service.hub import STREAM, document
from slacktide.service.routes import forms
from slacktide.service.routes.endpoints import (
    JOB,
    SMALL,
    Query,
    answered,
    caller_of,
    encoded_list,
    endpoint,
    query_of,
    says,
)

MOST_EVENTS = 1000
PAGES_BYTES = 8 * 1024 * 1024  # of all cached pages; the least recently used one is dropped first


class PageQuery(Query, frozen=True):
    """Which events, and how they are written."""

    after: Annotated[int, says("Only events with a higher number.", ge=0, le=SMALL)] | None = None
    limit: Annotated[int, says("At most this many.", ge=1, le=MOST_EVENTS)] = MOST_EVENTS
    form: Annotated[
        Literal["documented", "journal"],
        says(
            "`journal`: events exactly as the journal holds them, with paths of the server; "
            "otherwise as documented."
        ),
    ] = "documented"


class EventsQuery(PageQuery, frozen=True):
    """Events of one job or of all, as pages or as a stream."""

    job: Annotated[str, says("Only events of this job.")] | None = None
    until: Annotated[str, says("`ended`: the stream ends when the job has ended.")] = ""


class PageCache:
    """The full pages of events that were requested last: a journal only grows, so they never change."""

    def __init__(self, most_bytes: int = PAGES_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, name: Hashable) -> bytes | None:
        """Return a page that was kept; None where there is none."""
        with self._lock:
            if name in self._pages:
                self._pages.move_to_end(name)
            return self._pages.get(name)

    def kept(self, name: Hashable, page: bytes) -> bytes:
        """Keep a page, and return it."""
        with self._lock:
            self._bytes += len(page) - len(self._pages.pop(name, b""))
            self._pages[name] = page
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._pages.popitem(last=False)[1])
        return page


class EventStream(StreamingResponse):
    """A stream of events, which counts as a listener for as long as a client reads it."""

    def __init__(self, frames: AsyncIterator[str], place: AbstractContextManager[None]) -> None:
        super().__init__(frames, media_type=STREAM)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; raises TooMuchError before it begins where there is no place."""
        with self._place:
            await super().__call__(scope, receive, send)


class EventRoutes(Routes):
    """Answers to requests for events."""

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._pages = PageCache()

    @endpoint("GET", f"{JOB}/events", forms.EventPage, query=PageQuery)
    async def job_events(self, request: Request) -> Response:
        """Show what happened to a job."""
        return await self._page(query_of(request, PageQuery), request.path_params["job"])

    @endpoint("GET", "/api/v1/events", forms.EventPage, timed=False, streams=True, query=EventsQuery)
    async def events(self, request: Request) -> Response:
        """Show what happened, or with Accept: text/event-stream what happens, from Last-Event-ID on."""
        query = query_of(request, EventsQuery)
        job = query.job
        if STREAM not in request.headers.get("accept", ""):
            return await self._page(query, job)
        if job is not None:
            await self._reader.run(self._reader.check_known, job)
        last = request.headers.get("last-event-id")
        if last is not None and not (last.isascii() and last.isdecimal() and len(last) < 16):
            raise InputError(f"Last-Event-ID must be the number of an event, got {shown(last)}")
        newest = self._context.hub.seq if query.after is None else query.after
        after = newest if last is None else int(last)
        exact, to_the_end = query.form == "journal", query.until == "ended"
        who, keeper = caller_of(request), self._context.keeper
        frames = self._context.hub.stream(after, job, exact, to_the_end, lambda: keeper.still_knows(who))
        return EventStream(frames, self._context.listeners.one(who.name))

    async def _page(self, query: PageQuery, job: str | None) -> Response:
        after, most, exact = query.after or 0, query.limit, query.form == "journal"

        def page() -> bytes:
            found = self._reader.page(after, job, most)
            is_full = len(found) == most
            following = found[-1].record.seq if is_full else None
            body = encoded_list(
                "events", (document(entry, exact, self._reader.paths) for entry in found), next=following
            )
            return self._pages.kept((after, job, most, exact), body) if is_full else body

        known = self._pages.known((after, job, most, exact))
        return answered(await self._reader.run(page) if known is None else known)
