"""Requests for events: what happened to one job or to all, page by page, or as it happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from slacktide.app.jobs import requests
from slacktide.core.errors import InputError, shown
from slacktide.service.hub import STREAM, document
from slacktide.service.journal_reader import JournalReader
from slacktide.service.routes import forms
from slacktide.service.routes.encoding import answered, encoded_list
from slacktide.service.routes.endpoints import JOB, Param, Routes, endpoint, who_asks, whole
from slacktide.service.routes.page_cache import PageCache
from slacktide.service.service import Service

MOST_EVENTS = 1000
FORM = Param(
    "form",
    "string",
    "`journal`: events exactly as the journal holds them, with paths of the server; otherwise as documented.",
    among=("documented", "journal"),
)
AFTER = Param("after", "integer", "Only events with a higher number.", 0)
LIMIT = Param("limit", "integer", "At most this many.", 1, MOST_EVENTS)


class EventStream(StreamingResponse):
    """A stream of events, which takes the place of a listener for as long as somebody reads it."""

    def __init__(self, frames: AsyncIterator[str], place: AbstractContextManager[None]) -> None:
        super().__init__(frames, media_type=STREAM)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; raises TooMuchError before it begins where there is no place."""
        with self._place:
            await super().__call__(scope, receive, send)


class EventRoutes(Routes):
    """Answers to requests for events."""

    def __init__(self, service: Service) -> None:
        self._service, self._reader = service, service.reader
        self._pages = PageCache()

    @endpoint("GET", f"{JOB}/events", forms.EventPage, query=(AFTER, LIMIT, FORM))
    async def job_events(self, request: Request) -> Response:
        """Show what happened to a job."""
        return await self._page(request, request.path_params["job"])

    @endpoint(
        "GET",
        "/api/v1/events",
        forms.EventPage,
        timed=False,
        streams=True,
        query=(
            AFTER,
            LIMIT,
            FORM,
            Param("job", "string", "Only events of this job."),
            Param("until", "string", "`ended`: the stream ends when the job has ended."),
        ),
    )
    async def events(self, request: Request) -> Response:
        """Show what happened, or with Accept: text/event-stream what happens, from Last-Event-ID on."""
        job = request.query_params.get("job")
        if STREAM not in request.headers.get("accept", ""):
            return await self._page(request, job)
        if job is not None:
            await self._reader.run(check_known, self._reader, job)
        last = request.headers.get("last-event-id")
        if last is not None and not (last.isascii() and last.isdecimal() and len(last) < 16):
            raise InputError(f"Last-Event-ID must be the number of an event, got {shown(last)}")
        after = int(last) if last is not None else whole(request, "after", self._service.hub.seq)
        assert after is not None
        exact, to_the_end = _is_exact(request), request.query_params.get("until") == "ended"
        who, keeper = who_asks(request), self._service.keeper
        frames = self._service.hub.stream(after, job, exact, to_the_end, lambda: keeper.still_knows(who))
        return EventStream(frames, self._service.listeners.one(who.name))

    async def _page(self, request: Request, job: str | None) -> Response:
        after, most = whole(request, "after", 0), whole(request, "limit", MOST_EVENTS, 1, MOST_EVENTS)
        assert after is not None
        assert most is not None
        exact = _is_exact(request)

        def page() -> bytes:
            found = self._reader.page(after, job, most)
            is_full = len(found) == most
            following = found[-1].record.seq if is_full else None
            body = encoded_list(
                "events", (document(told, exact, self._reader.paths) for told in found), next=following
            )
            return self._pages.kept((after, job, most, exact), body) if is_full else body

        known = self._pages.known((after, job, most, exact))
        return answered(await self._reader.run(page) if known is None else known)


def check_known(reader: JournalReader, job: str) -> None:
    """Raise InputError where there is no such job."""
    with reader.world() as world:
        requests.track_of(world, job)


def _is_exact(request: Request) -> bool:
    form = request.query_params.get("form", "documented")
    if form not in ("documented", "journal"):
        raise InputError(f"form must be documented or journal, got {shown(form)}")
    return form == "journal"
