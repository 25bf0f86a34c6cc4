"""Requests that only look: jobs, logs, events, bills, machines, health and figures."""

from __future__ import annotations

import re
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from slacktide.api import forms
from slacktide.api.asking import Place
from slacktide.api.awaiting import awaited, place_of
from slacktide.api.encoding import answered, encoded, encoded_list
from slacktide.api.endpoints import JOB, Endpoint, Param, number, truth, who_asks, whole
from slacktide.api.hub import STREAM, document
from slacktide.api.metrics import family, hook_lines, world_lines
from slacktide.api.mistakes import told as told_wrong
from slacktide.api.pages import Pages
from slacktide.api.rows import Row
from slacktide.api.service import Service
from slacktide.app import requests
from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.alerts.verbs import statuses_for_readers
from slacktide.app.logs import LogLine
from slacktide.errors import InputError, SlacktideError, UnknownNameError, shown
from slacktide.events import Health

ACTIVE = "active"
"""The state of every job that has not ended."""
MOST_EVENTS = 1000
LOGS_WAIT_S = 30.0
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
PICTURES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
ALONE = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'none'; sandbox"
)
"""What a page of a report may do: show itself."""
FORM = Param(
    "form",
    "string",
    "`journal`: events exactly as the journal holds them, with paths of the server; otherwise as documented.",
    among=("documented", "journal"),
)
AFTER = Param("after", "integer", "Only events with a higher number.", 0)
LIMIT = Param("limit", "integer", "At most this many.", 1, MOST_EVENTS)


class Listening(StreamingResponse):
    """A stream of events, which takes the place of a listener for as long as somebody reads it."""

    def __init__(self, frames: AsyncIterator[str], place: AbstractContextManager[None]) -> None:
        super().__init__(frames, media_type=STREAM)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; raises TooMuchError before it begins where there is no place."""
        with self._place:
            await super().__call__(scope, receive, send)


class Reading:
    """Answers to requests that change nothing."""

    def __init__(self, service: Service) -> None:
        self._service, self._desk = service, service.desk
        self._pages = Pages()

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield every address."""
        filters = (
            Param("state", "string", "Only jobs in this state, such as running; `active`: not ended."),
            Param("health", "string", "Only on-time, at-risk or late ones.", among=get_args(Health)),
            Param("name", "string", "Only jobs whose name begins with this."),
            Param("limit", "integer", "Only the newest ones.", 1, 10**6),
        )
        page = (AFTER, LIMIT, FORM)
        yield Endpoint(
            method="GET",
            path="/api/v1/jobs",
            handler=self.jobs,
            answer=forms.JobList,
            query=filters,
            says="List jobs in the order of their submission.",
        )
        yield Endpoint(method="GET", path=JOB, handler=self.job, answer=forms.JobAnswer, says="Show one job.")
        yield Endpoint(
            method="GET",
            path=f"{JOB}/logs",
            handler=self.logs,
            answer=forms.Logs,
            timed=False,
            says="Show what workers printed after a place; with `wait`, as soon as there is more.",
            query=(
                Param("after", "string", "The `next` of an earlier answer."),
                Param("rank", "integer", "Only this worker.", 0),
                Param("attempt", "integer", "Only this set of workers; 0 is the setup.", 0),
                Param("wait", "number", "Seconds to wait for more while the job is running.", 0, LOGS_WAIT_S),
                Param("follow", "boolean", "More will be asked for: leave out a line without its end."),
            ),
        )
        yield Endpoint(
            method="GET",
            path=f"{JOB}/events",
            handler=self.job_events,
            answer=forms.EventPage,
            query=page,
            says="Show what happened to a job.",
        )
        yield Endpoint(
            method="GET",
            path=f"{JOB}/why",
            handler=self.why,
            answer=forms.Why,
            says="Say in plain sentences why a job holds what it holds.",
        )
        yield Endpoint(
            method="GET",
            path=f"{JOB}/course",
            handler=self.course,
            answer=forms.CourseAnswer,
            says="Show the course of a job: what it held, was offered, paid and did, for pictures.",
        )
        text = (Param("text", "boolean", "Also as the command line prints it."),)
        yield Endpoint(
            method="GET",
            path=f"{JOB}/cost",
            handler=self.cost,
            answer=forms.CostAnswer,
            query=text,
            timed=False,
            streams=True,
            says="Show the bill of a job beside other ways to run it, audited.",
        )
        yield Endpoint(
            method="GET",
            path=f"{JOB}/report",
            handler=self.report,
            answer=str,
            media="text/html",
            timed=False,
            says="Show the run of a job as an HTML page that needs nothing else.",
        )
        yield Endpoint(
            method="GET",
            path=f"{JOB}/plot",
            handler=self.plot,
            answer=bytes,
            media=tuple(PICTURES.values()),
            query=(Param("form", "string", "`png` (default), `svg` or `pdf`.", among=tuple(PICTURES)),),
            timed=False,
            says="Show the run of a job as a picture.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/cost",
            handler=self.cost_of_all,
            answer=forms.SiteCostAnswer,
            query=text,
            timed=False,
            streams=True,
            says="Show the bill of the whole journal, audited.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/events",
            handler=self.events,
            answer=forms.EventPage,
            timed=False,
            streams=True,
            says=f"Show what happened, or with Accept: {STREAM} what happens, from Last-Event-ID on.",
            query=(
                *page,
                Param("job", "string", "Only events of this job."),
                Param("until", "string", "`ended`: the stream ends when the job has ended."),
            ),
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/journal",
            handler=self.journal,
            answer=forms.JournalAnswer,
            says="Show the state of the journal, and which requests are waiting.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/machines",
            handler=self.machines,
            answer=forms.MachineList,
            timed=False,
            says="List what is rented.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/alerts",
            handler=self.alerts,
            answer=forms.HookList,
            says="Show what hooks for alerts were sent, what waits, and the last error, without addresses.",
        )
        yield Endpoint(
            method="GET",
            path="/healthz",
            handler=self.health,
            answer=forms.Health,
            role=None,
            says="Say whether the engine steps, the lease is held and the disk is writable; otherwise 503.",
        )
        yield Endpoint(
            method="GET",
            path="/metrics",
            handler=self.metrics,
            answer=str,
            media="text/plain",
            says="Figures for Prometheus.",
        )

    async def jobs(self, request: Request) -> Response:
        """List jobs."""
        asked = request.query_params
        state, health, name = asked.get("state"), asked.get("health"), asked.get("name", "")
        if health is not None and health not in get_args(Health):
            raise UnknownNameError("a health", health, get_args(Health))

        most, active = whole(request, "limit", None, 1, 10**6), state == ACTIVE

        def keep(one: Row) -> bool:
            is_state = active or state in (None, one["status"])
            return is_state and health in (None, one["health"]) and one["name"].startswith(name)

        def rows() -> bytes:
            return encoded_list("jobs", self._desk.jobs(keep, most, active=active))

        return answered(await self._desk.run(rows))

    async def job(self, request: Request) -> Response:
        """Show one job."""
        job = request.path_params["job"]
        return answered(await self._desk.run(lambda: encoded(self._desk.job(job))))

    async def logs(self, request: Request) -> Response:
        """Show what workers printed."""
        job, after = request.path_params["job"], request.query_params.get("after", "")
        rank, attempt = whole(request, "rank", None), whole(request, "attempt", None)
        follow, until = truth(request, "follow"), time.monotonic() + number(request, "wait", 0.0, LOGS_WAIT_S)
        while True:
            seq = self._service.hub.seq
            lines, place, over = await self._desk.run(self._desk.logs, job, rank, attempt, after, follow)
            left = until - time.monotonic()
            if lines or over or left <= 0 or self._service.hub.closed:
                return JSONResponse({"lines": [_line(one) for one in lines], "next": place, "over": over})
            await self._service.hub.changed(seq, min(left, 0.25))

    async def job_events(self, request: Request) -> Response:
        """Show what happened to a job."""
        return await self._page(request, request.path_params["job"])

    async def events(self, request: Request) -> Response:
        """Show what happened, or stream what happens."""
        job = request.query_params.get("job")
        if STREAM not in request.headers.get("accept", ""):
            return await self._page(request, job)
        if job is not None:
            await self._desk.run(self._known, job)
        last = request.headers.get("last-event-id")
        if last is not None and not (last.isascii() and last.isdecimal() and len(last) < 16):
            raise InputError(f"Last-Event-ID must be the number of an event, got {shown(last)}")
        after = int(last) if last is not None else whole(request, "after", self._service.hub.seq)
        assert after is not None
        exact, to_the_end = _is_exact(request), request.query_params.get("until") == "ended"
        who, keeper = who_asks(request), self._service.keeper
        frames = self._service.hub.stream(after, job, exact, to_the_end, lambda: keeper.still_knows(who))
        return Listening(frames, self._service.listeners.one(who.name))

    async def _page(self, request: Request, job: str | None) -> Response:
        after, most = whole(request, "after", 0), whole(request, "limit", MOST_EVENTS, 1, MOST_EVENTS)
        assert after is not None
        assert most is not None
        exact = _is_exact(request)

        def page() -> bytes:
            found = self._desk.page(after, job, most)
            is_full = len(found) == most
            following = found[-1].record.seq if is_full else None
            body = encoded_list(
                "events", (document(told, exact, self._desk.paths) for told in found), next=following
            )
            return self._pages.kept((after, job, most, exact), body) if is_full else body

        known = self._pages.known((after, job, most, exact))
        return answered(await self._desk.run(page) if known is None else known)

    async def why(self, request: Request) -> Response:
        """Say why a job holds what it holds."""
        job = request.path_params["job"]
        return JSONResponse({"job": job, "why": await self._desk.run(self._desk.why, job)})

    async def course(self, request: Request) -> Response:
        """Show the course of a job."""
        job = request.path_params["job"]
        return answered(await self._desk.run(lambda: encoded(self._desk.course(job))))

    async def cost(self, request: Request) -> Response:
        """Show the bill of a job."""
        job = request.path_params["job"]
        stamp = await self._desk.run(self._stamp, job)
        return await self._billed(request, {"job": job}, stamp)

    async def cost_of_all(self, request: Request) -> Response:
        """Show the bill of the whole journal."""
        return await self._billed(request, {}, self._service.hub.seq)

    async def _billed(self, request: Request, question: dict[str, Any], stamp: object) -> Response:
        with_text = truth(request, "text")

        async def ask(place: Place) -> dict[str, Any]:
            return _bill(await self._service.asker.ask("cost", question, stamp, place), with_text)

        return await awaited(request, ask, partial(told_wrong, self._service))

    async def report(self, request: Request) -> Response:
        """Show the run of a job as a page."""
        page = await self._drawn(request, "report")
        return Response(page.encode(), headers=_shown_alone(request, "html"), media_type="text/html")

    async def plot(self, request: Request) -> Response:
        """Show the run of a job as a picture."""
        form = request.query_params.get("form", "png")
        if form not in PICTURES:
            raise InputError(f"form must be {', '.join(PICTURES)}, got {shown(form)}")
        picture = b64decode(await self._drawn(request, form))
        return Response(picture, headers=_shown_alone(request, form), media_type=PICTURES[form])

    async def _drawn(self, request: Request, want: str) -> str:
        job = request.path_params["job"]
        await self._desk.run(self._known, job)
        found = await self._service.asker.ask("run", {"job": job, "want": want}, place=place_of(request))
        return str(found[want])

    async def journal(self, request: Request) -> Response:
        """Show where the journal stands."""
        return JSONResponse(await self._desk.run(self._journal))

    async def machines(self, request: Request) -> Response:
        """List what is rented."""
        moment, place = int(time.monotonic() / 5.0), place_of(request)
        found = await self._service.asker.ask("machines", {}, moment, place)
        return JSONResponse({**found, "holdings": await self._desk.run(self._desk.holdings)})

    async def alerts(self, request: Request) -> Response:
        """Show where the hooks for alerts stand."""
        found = await self._desk.run(statuses_for_readers, self._desk.path)
        return JSONResponse({"hooks": [asdict(one) for one in found]})

    async def health(self, request: Request) -> Response:
        """Say whether all is well."""
        runner = self._service.runner
        found = {
            "engine_stepped": runner.is_well,
            "lease_held": await self._desk.run(lambda: self._desk.in_charge),
            "disk_writable": await self._desk.run(self._service.disk_is_writable),
        }
        well = all(found.values())
        return JSONResponse({"status": "ok" if well else "trouble", **found}, 200 if well else 503)

    async def metrics(self, request: Request) -> Response:
        """Tell figures."""
        lines = await self._desk.run(self._figures)
        return PlainTextResponse("\n".join(lines) + "\n", media_type=PROMETHEUS)

    def _figures(self) -> list[str]:
        runner, service = self._service.runner, self._service
        in_charge = self._desk.in_charge
        with self._desk.world() as world:
            lines = list(world_lines(world, in_charge=in_charge))
        own = (
            ("slacktide_engine_steps_total", "counter", "Steps of the engine.", runner.steps),
            ("slacktide_listeners", "gauge", "Open streams of events.", service.listeners.held),
        )
        for name, kind, said, value in own:
            lines += family(name, kind, said, [({}, value)])
        hooks = hook_lines(self._hooks())
        return [*lines, *hooks, *runner.gaps.lines(), *service.counts.lines()]

    def _hooks(self) -> list[HookStatus]:
        try:
            return self._service.runner.hooks()
        except SlacktideError:  # its own file cannot be read just now; all else can be told
            return []

    def _known(self, job: str) -> None:
        with self._desk.world() as world:
            requests.track_of(world, job)

    def _stamp(self, job: str) -> list[Any]:
        """Return what tells one state of a job's bill from another."""
        in_charge = self._desk.in_charge
        with self._desk.world() as world:
            track = requests.track_of(world, job)
            return [track.bill.cost_usd, track.status, track.state.progress_gpu_hours, in_charge]

    def _journal(self) -> dict[str, Any]:
        in_charge, runner = self._desk.in_charge, self._service.runner
        with self._desk.world() as world:
            waiting = [
                {"key": asked.key, "path": self._service.without_paths(asked.path)}
                for asked in world.requests.waiting.values()
            ]
            return {
                "id": world.id,
                "seq": world.seq,
                "now_hours": runner.now_hours(),
                "speed": None if world.clock is None else world.clock.speed,
                "in_charge": in_charge,
                "backend": world.backend,
                "unfinished": list(world.unended),
                "waiting": waiting,
            }


def _is_exact(request: Request) -> bool:
    form = request.query_params.get("form", "documented")
    if form not in ("documented", "journal"):
        raise InputError(f"form must be documented or journal, got {shown(form)}")
    return form == "journal"


def _line(one: LogLine) -> dict[str, Any]:
    fields = one._asdict()
    if not one.continued:
        del fields["continued"]
    return fields


def _bill(told: Mapping[str, Any], with_text: bool) -> dict[str, Any]:
    text = {"text": told["text"]} if with_text else {}
    return {**told["document"], "notes": told["notes"], **text}


def _shown_alone(request: Request, ending: str) -> dict[str, str]:
    """Let a browser show a page or picture of ours, and run nothing in it."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", request.path_params["job"])[:60]
    return {"content-security-policy": ALONE, "content-disposition": f'inline; filename="{name}.{ending}"'}
