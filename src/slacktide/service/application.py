"""The web application: every address behind access control, with errors reported in one form."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from re import Pattern

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, compile_path
from starlette.types import ASGIApp

from slacktide.core.errors import SlacktideError
from slacktide.service.access.gate import Gate, refused
from slacktide.service.routes.endpoints import Endpoint, Handler, caller_of
from slacktide.service.routes.error_responses import error_response
from slacktide.service.routes.events import EventRoutes
from slacktide.service.routes.jobs import JobRoutes
from slacktide.service.routes.markets import MarketRoutes
from slacktide.service.routes.openapi import described
from slacktide.service.routes.server import ServerRoutes
from slacktide.service.routes.submissions import SubmissionRoutes
from slacktide.service.service import Service, pumping
from slacktide.service.tasks.task_worker import TaskError

OPENAPI = "/api/v1/openapi.json"


def endpoints_of(service: Service) -> list[Endpoint]:
    """Return every address of the API."""
    groups = (
        JobRoutes(service),
        EventRoutes(service),
        ServerRoutes(service),
        MarketRoutes(service),
        SubmissionRoutes(service),
    )
    return [endpoint for group in groups for endpoint in group.endpoints()]


def make_app(service: Service, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Build the application; `pages` are addresses outside the API, behind the same access control."""
    endpoints = endpoints_of(service)
    document = described(endpoints)

    async def description(request: Request) -> Response:
        return JSONResponse(document)

    allowed = methods_by_path(endpoints)

    async def absent(request: Request, error: Exception) -> Response:
        return _not_found(request, error, allowed)

    async def met(request: Request, error: Exception) -> Response:
        return error_response(service, error)

    async def gone(request: Request, error: Exception) -> Response:
        return refused(400, "a body must come whole, got a part")  # for the log: the client is gone

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pumping(service):
            yield

    behind = Starlette(
        routes=[
            *(Route(one.path, _behind(service, one), methods=[one.method]) for one in endpoints),
            Route(OPENAPI, description, methods=["GET"]),
            *pages,
        ],
        exception_handlers={
            SlacktideError: met,
            TaskError: met,
            HTTPException: absent,
            ClientDisconnect: gone,
            Exception: met,
        },
        lifespan=lifespan,
    )
    return Gate(behind, service.keeper, service.counts.answered)


def _behind(service: Service, endpoint: Endpoint) -> Handler:
    """Return a handler that checks the caller's role first, and counts how long an answer takes."""

    async def answer(request: Request) -> Response:
        if not caller_of(request).may(endpoint.role):
            if caller_of(request).role is None:
                return refused(401, "a request must have a token, got none")
            return refused(403, f"this needs a token with the role {endpoint.role}, got another")
        began = time.perf_counter()
        found = await endpoint.handler(request)
        if endpoint.timed:
            service.counts.reads.add(time.perf_counter() - began)
        return found

    return answer


def methods_by_path(endpoints: Sequence[Endpoint]) -> dict[Pattern[str], set[str]]:
    """Return the methods of each address, those of all its endpoints together."""
    found: dict[Pattern[str], set[str]] = {}
    for one in endpoints:
        methods = found.setdefault(compile_path(one.path)[0], set())
        methods |= {one.method, *(("HEAD",) if one.method == "GET" else ())}
    return found


def _not_found(request: Request, error: Exception, allowed: Mapping[Pattern[str], set[str]]) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: "nothing was found at this address", 405: "this address does not support that method"}
    answer = refused(error.status_code, messages.get(error.status_code, error.detail))
    answer.headers.update(error.headers or {})
    if error.status_code == 405:
        known = [methods for path, methods in allowed.items() if path.match(request.url.path)]
        answer.headers["allow"] = ", ".join(sorted(set().union(*known))) or answer.headers.get("allow", "")
    return answer
