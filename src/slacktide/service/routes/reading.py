"""Requests that only look at jobs: their states, logs, courses, bills and pictures."""

from __future__ import annotations

import re
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from slacktide.app.jobs import requests
from slacktide.app.journal.logs import LogLine
from slacktide.core.errors import InputError, UnknownNameError, shown
from slacktide.journal.events import Health
from slacktide.service.routes import forms
from slacktide.service.routes.awaiting import awaited, place_of
from slacktide.service.routes.encoding import answered, encoded, encoded_list
from slacktide.service.routes.endpoints import JOB, Endpoint, Param, number, truth, whole
from slacktide.service.routes.events import check_known
from slacktide.service.routes.mistakes import told as told_wrong
from slacktide.service.rows import Row
from slacktide.service.service import Service
from slacktide.service.tasks.asking import Place

ACTIVE = "active"
"""The state of every job that has not ended."""
LOGS_WAIT_S = 30.0
PICTURES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
ALONE = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'none'; sandbox"
)
"""What a page of a report may do: show itself."""


class Reading:
    """Answers to requests about jobs that change nothing."""

    def __init__(self, service: Service) -> None:
        self._service, self._desk = service, service.desk

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield every address."""
        filters = (
            Param("state", "string", "Only jobs in this state, such as running; `active`: not ended."),
            Param("health", "string", "Only on-time, at-risk or late ones.", among=get_args(Health)),
            Param("name", "string", "Only jobs whose name begins with this."),
            Param("limit", "integer", "Only the newest ones.", 1, 10**6),
        )
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
        await self._desk.run(check_known, self._desk, job)
        found = await self._service.asker.ask("run", {"job": job, "want": want}, place=place_of(request))
        return str(found[want])

    def _stamp(self, job: str) -> list[Any]:
        """Return what tells one state of a job's bill from another."""
        in_charge = self._desk.in_charge
        with self._desk.world() as world:
            track = requests.track_of(world, job)
            return [track.bill.cost_usd, track.status, track.state.progress_gpu_hours, in_charge]


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
