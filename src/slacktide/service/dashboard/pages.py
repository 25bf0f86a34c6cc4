"""Routes of the dashboard: an HTML shell for every page, and the scripts and styles that fill it.

A shell contains no data. Its script requests everything from the API with the session's cookie, so access is
checked in one place.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FRESH = "no-cache"  # browsers cache scripts and styles, but check each time whether they have changed


class Page(NamedTuple):
    """One page of the dashboard."""

    path: str
    script: str  # the module that fills it: `static/pages/SCRIPT.js`
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


class StaticFile(NamedTuple):
    """A script, style or icon that is sent as it is; `tag` is its ETag."""

    content: bytes
    media: str
    tag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return all scripts and styles by their paths below `static`; no other file is ever sent."""
    return dict(_read_folder(files("slacktide.service.dashboard") / "static", ""))


def _read_folder(folder: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read_folder(entry, f"{path}/")
        elif (media := KINDS.get(f".{entry.name.rpartition('.')[2]}")) is not None:
            content = entry.read_bytes()
            # Made from the content, so browsers notice an upgraded server at their next request.
            digest = hashlib.sha256(content).hexdigest()[:32]
            yield path, StaticFile(content, media, f'"{digest}"')


def pages() -> list[BaseRoute]:
    routes = [Route(page.path, _page_handler(page), methods=["GET"]) for page in PAGES]
    return [*routes, Route("/static/{path:path}", _static_file, methods=["GET"])]


def shell(page: Page) -> str:
    template = Template((files("slacktide.service.dashboard") / "shell.html").read_text(encoding="utf-8"))
    return template.substitute(page=page.script, title=html.escape(page.title), menu=_menu(page))


def _menu(current: Page) -> str:
    """Return links to the pages; the open one is marked, for screen readers too."""
    if current.script == "login":
        return ""
    return "\n    ".join(_link(page, page == current) for page in PAGES if page.in_menu)


def _link(page: Page, is_open: bool) -> str:
    mark = " aria-current=page" if is_open else ""
    return f'<a href="{page.path}"{mark}>{html.escape(page.title)}</a>'


def _page_handler(page: Page) -> Callable[[Request], Awaitable[Response]]:
    text = shell(page)

    async def respond(request: Request) -> Response:
        return HTMLResponse(text)

    return respond


async def _static_file(request: Request) -> Response:
    found = static_files().get(request.path_params["path"])
    if found is None:
        raise HTTPException(404)
    headers = {"etag": found.tag, "cache-control": FRESH}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media, headers=headers)
