"""Addresses of the dashboard: a shell for every page, and the scripts and styles that fill it.

A shell holds no data. Its script asks the API for all of it with the session's cookie, so there is one gate.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FRESH = "no-cache"
"""Browsers keep scripts and styles, and ask each time whether they are still the same."""


class Page(NamedTuple):
    """One page of the dashboard."""

    path: str
    script: str
    """The module that fills it: `page-SCRIPT.js`."""
    title: str
    in_menu: bool = True


PAGES = (
    Page("/", "jobs", "Jobs"),
    Page("/fleet", "fleet", "Fleet"),
    Page("/machines", "machines", "Machines"),
    Page("/markets", "markets", "Markets"),
    Page("/submit", "submit", "Submit"),
    Page("/jobs/{job}", "job", "Job", in_menu=False),
    Page("/login", "login", "Log in", in_menu=False),
)


class Asset(NamedTuple):
    """A file that is sent as it is."""

    content: bytes
    media: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Read all scripts and styles by their names: nothing else can be asked for."""
    found = {}
    for one in (files("slacktide.service.dashboard") / "static").iterdir():
        media = KINDS.get(f".{one.name.rpartition('.')[2]}")
        if media is not None:
            content = one.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:32]
            found[one.name] = Asset(content, media, f'"{digest}"')
    return found


def pages() -> list[BaseRoute]:
    """Return every address of the dashboard."""
    shown = [Route(page.path, _shown(page), methods=["GET"]) for page in PAGES]
    return [*shown, Route("/static/{name}", _asset, methods=["GET"])]


def shell(page: Page) -> str:
    """Write the shell of a page."""
    whole = Template((files("slacktide.service.dashboard") / "shell.html").read_text(encoding="utf-8"))
    return whole.substitute(page=page.script, title=html.escape(page.title), menu=_menu(page))


def _menu(now: Page) -> str:
    """Write links to the pages; the one that is open is marked for eyes and for screen readers."""
    if now.script == "login":
        return ""
    links = (
        f'<a href="{one.path}"{" aria-current=page" if one == now else ""}>{html.escape(one.title)}</a>'
        for one in PAGES
        if one.in_menu
    )
    return "\n    ".join(links)


def _shown(page: Page) -> Callable[[Request], Awaitable[Response]]:
    text = shell(page)

    async def answer(request: Request) -> Response:
        return HTMLResponse(text)

    return answer


async def _asset(request: Request) -> Response:
    found = assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    headers = {"etag": found.tag, "cache-control": FRESH}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media, headers=headers)
