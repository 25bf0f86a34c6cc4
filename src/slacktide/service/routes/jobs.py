"""Routes that read jobs: their states, logs, bills and pictures, and the events of one job or of all."""

from __future__ import annotations

import re
import threading
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from slacktide.app.jobs import requests
from slacktide.core.errors import InputError, shown
from slacktide.journal.events import Health
from slacktide.service.handler_context import HandlerContext, Routes, awaited, place_of
from slacktide.service.hub import STREAM, document
from slacktide.service.journal_reader import Row
from slacktide.service.routes import forms
from slacktide.service.routes.endpoints import (
    JOB,
    LARGEST,
    Query,
    answered,
    caller_of,
    encoded,
    encoded_list,
    endpoint,
    query_of,
    says,
)
from slacktide.service.tasks.task_worker import QueuePosition

ACTIVE = "active"  # the state of every job that has not ended
LOGS_WAIT_S = 30.0
Form = Literal["png", "svg", "pdf"]
PICTURES: dict[Form, str] = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
ALONE = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'none'; sandbox"
)
"""The security policy of reports and pictures, in which no scripts run."""
MOST_EVENTS = 1000
PAGES_BYTES = 8 * 1024 * 1024  # of all cached pages together; the least recently used one is dropped first


class JobsQuery(Query, frozen=True):
    """Which jobs to list."""

    state: Annotated[str | None, says("Only jobs in this state, such as running; `active`: not ended.")] = (
        None
    )
    health: Annotated[Health, says("Only on-time, at-risk or late ones.")] | None = None
    name: Annotated[str, says("Only jobs whose name begins with this.")] = ""
    limit: Annotated[int, says("Only the newest ones.", ge=1, le=10**6)] | None = None


class LogsQuery(Query, frozen=True):
    """Which lines of logs, and how long to wait for more."""

    after: Annotated[str, says("The `next` of an earlier answer.")] = ""
    rank: Annotated[int, says("Only this worker.", ge=0, le=LARGEST)] | None = None
    attempt: Annotated[int, says("Only this set of workers; 0 is the setup.", ge=0, le=LARGEST)] | None = None
    wait: Annotated[
        float, says("Seconds to wait for more while the job is running.", ge=0, le=LOGS_WAIT_S)
    ] = 0.0
    follow: Annotated[bool, says("More will be requested: leave out a line without its end.")] = False


class CostQuery(Query, frozen=True):
    """How a bill is shown."""

    text: Annotated[bool, says("Also as the command line prints it.")] = False


class PlotQuery(Query, frozen=True):
    """How a run is drawn."""

    form: Annotated[Form, says("`png` (default), `svg` or `pdf`.")] = "png"


class PageQuery(Query, frozen=True):
    """Which events, and how they are written."""

    after: Annotated[int, says("Only events with a higher number.", ge=0, le=LARGEST)] | None = None
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
    """Caches full pages of events: a journal only grows, so they never change."""

    def __init__(self, most_bytes: int = PAGES_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, name: Hashable) -> bytes | None:
        with self._lock:
            if name in self._pages:
                self._pages.move_to_end(name)
            return self._pages.get(name)

    def kept(self, name: Hashable, page: bytes) -> bytes:
        with self._lock:
            self._bytes += len(page) - len(self._pages.pop(name, b""))
            self._pages[name] = page
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._pages.popitem(last=False)[1])
        return page


class EventStream(StreamingResponse):
    """A stream of events, which holds one of the limited places for listeners while a client reads it."""

    def __init__(self, frames: AsyncIterator[str], place: AbstractContextManager[None]) -> None:
        super().__init__(frames, media_type=STREAM)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; raises TooMuchError before it begins if no place is free."""
        with self._place:
            await super().__call__(scope, receive, send)


class JobRoutes(Routes):
    """Answers requests that read jobs and events."""

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._pages = PageCache()

    @endpoint("GET", "/api/v1/jobs", forms.JobList, query=JobsQuery)
    async def jobs(self, request: Request) -> Response:
        """List jobs in the order of their submission."""
        query = query_of(request, JobsQuery)
        active = query.state == ACTIVE

        def keep(row: Row) -> bool:
            is_state = active or query.state in (None, row["status"])
            return is_state and query.health in (None, row["health"]) and row["name"].startswith(query.name)

        def rows() -> bytes:
            return encoded_list("jobs", self._reader.jobs(keep, query.limit, active=active))

        return answered(await self._reader.run(rows))

    @endpoint("GET", JOB, forms.JobAnswer)
    async def job(self, request: Request) -> Response:
        """Show one job."""
        job = request.path_params["job"]
        return answered(await self._reader.run(lambda: encoded(self._reader.job(job))))

    @endpoint("GET", f"{JOB}/logs", forms.Logs, timed=False, query=LogsQuery)
    async def logs(self, request: Request) -> Response:
        """Show what workers printed after a place; with `wait`, as soon as there is more."""
        job, query = request.path_params["job"], query_of(request, LogsQuery)
        until = time.monotonic() + query.wait
        while True:
            seq = self._context.hub.seq
            lines, place, over = await self._reader.run(
                self._reader.logs, job, query.rank, query.attempt, query.after, query.follow
            )
            left = until - time.monotonic()
            if lines or over or left <= 0 or self._context.hub.closed:
                return JSONResponse(
                    {"lines": [line.as_json() for line in lines], "next": place, "over": over}
                )
            await self._context.hub.changed(seq, min(left, 0.25))

    @endpoint("GET", f"{JOB}/why", forms.Why)
    async def why(self, request: Request) -> Response:
        """Say in plain sentences why a job holds what it holds."""
        job = request.path_params["job"]
        return JSONResponse({"job": job, "why": await self._reader.run(self._reader.why, job)})

    @endpoint("GET", f"{JOB}/course", forms.CourseAnswer)
    async def course(self, request: Request) -> Response:
        """Show the course of a job over time, for pictures: GPUs held and offered, cost and progress."""
        job = request.path_params["job"]
        return answered(await self._reader.run(lambda: encoded(self._reader.course(job))))

    @endpoint("GET", f"{JOB}/cost", forms.CostAnswer, query=CostQuery, timed=False, streams=True)
    async def cost(self, request: Request) -> Response:
        """Show the bill of a job and its audit, next to what other ways to run it would have cost."""
        job = request.path_params["job"]
        stamp = await self._reader.run(self._stamp, job)
        return await self._billed(request, {"job": job}, stamp)

    async def _billed(self, request: Request, question: dict[str, Any], stamp: object) -> Response:
        with_text = query_of(request, CostQuery).text

        async def bill(place: QueuePosition) -> dict[str, Any]:
            report = await self._context.tasks.run("cost", question, stamp, place)
            text = {"text": report["text"]} if with_text else {}
            return {**report["document"], "notes": report["notes"], **text}

        return await awaited(request, bill, self._context.error_response)

    @endpoint("GET", f"{JOB}/report", str, media="text/html", timed=False)
    async def report(self, request: Request) -> Response:
        """Show the run of a job as a self-contained HTML page."""
        page = await self._drawn(request, "report")
        return Response(page.encode(), headers=_shown_alone(request, "html"), media_type="text/html")

    @endpoint("GET", f"{JOB}/plot", bytes, media=tuple(PICTURES.values()), query=PlotQuery, timed=False)
    async def plot(self, request: Request) -> Response:
        """Show the run of a job as a picture."""
        form = query_of(request, PlotQuery).form
        picture = b64decode(await self._drawn(request, form))
        return Response(picture, headers=_shown_alone(request, form), media_type=PICTURES[form])

    @endpoint("GET", "/api/v1/cost", forms.SiteCostAnswer, query=CostQuery, timed=False, streams=True)
    async def cost_of_all(self, request: Request) -> Response:
        """Show the bill of the whole journal and its audit."""
        return await self._billed(request, {}, self._context.hub.seq)

    async def _drawn(self, request: Request, want: str) -> str:
        job = request.path_params["job"]
        await self._reader.run(self._reader.check_known, job)
        found = await self._context.tasks.run("run", {"job": job, "want": want}, place=place_of(request))
        return str(found[want])

    def _stamp(self, job: str) -> list[Any]:
        """Return values that change whenever a job's bill does, as the key under which it is cached."""
        in_charge = self._reader.in_charge
        with self._reader.state() as state:
            record = requests.record_of(state, job)
            done = record.progress.state.progress_gpu_hours
            return [record.money.bill.cost_usd, record.status, done, in_charge]

    @endpoint("GET", f"{JOB}/events", forms.EventPage, query=PageQuery)
    async def job_events(self, request: Request) -> Response:
        """Show what happened to a job."""
        return await self._page(query_of(request, PageQuery), request.path_params["job"])

    @endpoint("GET", "/api/v1/events", forms.EventPage, timed=False, streams=True, query=EventsQuery)
    async def events(self, request: Request) -> Response:
        """Show past events; with Accept: text/event-stream, stream new ones, from Last-Event-ID on."""
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


def _shown_alone(request: Request, ending: str) -> dict[str, str]:
    """Return headers with which a browser shows a report or picture, but runs no scripts in it."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", request.path_params["job"])[:60]
    return {"content-security-policy": ALONE, "content-disposition": f'inline; filename="{name}.{ending}"'}
