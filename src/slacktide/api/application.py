"""The application: every address, behind the gate, with errors told the same way everywhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from slacktide.api.asking import AskedError
from slacktide.api.endpoints import Endpoint, Handler, who_asks
from slacktide.api.gate import Gate, error_body, refused
from slacktide.api.limits import TooMuchError
from slacktide.api.openapi import described
from slacktide.api.reading import Reading
from slacktide.api.service import Service, pumping
from slacktide.api.surroundings import Surroundings
from slacktide.api.writing import Writing
from slacktide.errors import SlacktideError

OPENAPI = "/api/v1/openapi.json"


def endpoints_of(service: Service) -> list[Endpoint]:
    """Return every address of the API."""
    rooms = (Reading(service), Surroundings(service), Writing(service))
    return [endpoint for room in rooms for endpoint in room.endpoints()]


def make_app(service: Service, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Build the application; `pages` are addresses beside the API, behind the same gate."""
    endpoints = endpoints_of(service)
    document = described(endpoints)

    async def description(request: Request) -> Response:
        return JSONResponse(document)

    async def met(request: Request, error: Exception) -> Response:
        return _told(service, error)

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
        exception_handlers={SlacktideError: met, AskedError: met, HTTPException: _not_found, Exception: met},
        lifespan=lifespan,
    )
    return Gate(behind, service.keeper, service.counts.answered)


def _behind(service: Service, endpoint: Endpoint) -> Handler:
    """Let only those through whose token is good for it, and count how long it takes."""

    async def answer(request: Request) -> Response:
        if not who_asks(request).may(endpoint.role):
            if who_asks(request).role is None:
                return refused(401, "a request must have a token, got none")
            return refused(403, f"this needs a token with the role {endpoint.role}, got another")
        began = time.perf_counter()
        found = await endpoint.handler(request)
        if endpoint.timed:
            service.counts.reads.add(time.perf_counter() - began)
        return found

    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address does not know that method"}
    answer = refused(error.status_code, said.get(error.status_code, error.detail))
    answer.headers.update(error.headers or {})
    return answer


def _told(service: Service, error: Exception) -> Response:
    told: dict[str, Any]
    if isinstance(error, AskedError):
        told = error.told
        kind, message, exit_code, status = (told[key] for key in ("kind", "message", "exit_code", "status"))
    elif isinstance(error, SlacktideError):
        kind, message = type(error).__name__, str(error)
        exit_code, status = error.exit_code, error.http_status
    else:
        kind, message, exit_code, status = "InternalError", "something went wrong here", 1, 500
        service.say(f"internal error: {type(error).__name__}")
    headers = {"retry-after": "1"} if isinstance(error, TooMuchError) else None
    return JSONResponse(error_body(kind, service.without_paths(message), exit_code), status, headers)
