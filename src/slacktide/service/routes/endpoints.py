"""One address of the API: what it takes, what it answers, and who may ask."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from slacktide.app.tasks import read_as
from slacktide.app.tokens import Role
from slacktide.core.errors import InputError, shown
from slacktide.service.access.gate import Who
from slacktide.service.service import Service

Handler = Callable[[Request], Awaitable[Response]]
JOB = "/api/v1/jobs/{job}"
MOST_WAIT_S = 60.0
MARK = "address"
"""The attribute by which a handler is known as one."""
SMALL = 10**12


class Param(NamedTuple):
    """A parameter after the question mark."""

    name: str
    kind: Literal["string", "integer", "boolean", "number"]
    says: str
    least: float | None = None
    most: float | None = None
    among: tuple[str, ...] = ()
    """The words that it may be; none: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address, for one method."""

    method: str
    path: str
    handler: Handler
    says: str
    answer: Any = None
    """The type of its answer; None: no body."""
    media: str | tuple[str, ...] = "application/json"
    status: int = 200
    role: Role | None = "read"
    """What the token must be good for; None: everybody may ask."""
    body: Any = None
    """The type of its body; None: none."""
    query: tuple[Param, ...] = ()
    streams: bool = False
    """Whether it also answers with a stream, to who accepts one."""
    timed: bool = True
    """Whether it answers at once, so that its time is counted."""

    @property
    def name(self) -> str:
        """What it is called in the description of the API."""
        words = self.path.removeprefix("/api/v1/").replace("{", "").replace("}", "")
        return f"{self.method.lower()}_{words.strip('/').replace('/', '_').replace('.', '_')}"


Method = TypeVar("Method", bound=Callable[..., Awaitable[Response]])


class Routes:
    """A group of handlers: each method that is marked with `endpoint` answers one address."""

    def __init__(self, service: Service) -> None:
        self._service, self._reader = service, service.reader

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield every address."""
        for name, method in vars(type(self)).items():
            if hasattr(method, MARK):
                yield Endpoint(handler=getattr(self, name), **getattr(method, MARK))


def endpoint(method: str, path: str, answer: Any = None, **more: Any) -> Callable[[Method], Method]:
    """Mark a method as the handler of an address; `more` are further fields of `Endpoint`.

    The method's docstring is the summary in openapi.json, so it is written for users of the API.
    """

    def mark(handler: Method) -> Method:
        says = " ".join((handler.__doc__ or "").split())
        setattr(handler, MARK, {"method": method, "path": path, "answer": answer, "says": says, **more})
        return handler

    return mark


def who_asks(request: Request) -> Who:
    """Return who sent a request, as the gate found out."""
    who: Who = request.scope["state"]["who"]
    return who


def note(say: Callable[[str], None], request: Request, what: str) -> None:
    """Say who asked for what, in one line: the journal knows users only as such."""
    say(f"{who_asks(request).name}: {what if what.isprintable() else shown(what)}")


async def body_of(request: Request, kind: Any) -> Any:
    """Read a body of a type; raises InputError for anything else."""
    raw = await request.body()
    try:
        tree = json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError):
        raise InputError("a body must be JSON, got something else") from None
    return read_as(kind, tree)


def whole(request: Request, name: str, usual: int | None, least: int = 0, most: int = SMALL) -> int | None:
    """Read a whole number after the question mark; raises InputError for anything else."""
    text = request.query_params.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and least <= int(text) <= most):
        raise InputError(f"{name} must be a whole number between {least} and {most}, got {shown(text)}")
    return int(text)


def number(request: Request, name: str, usual: float, most: float) -> float:
    """Read a number between 0 and `most`; raises InputError for anything else."""
    text = request.query_params.get(name)
    if text is None:
        return usual
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= most:
        raise InputError(f"{name} must be a number between 0 and {most:g}, got {shown(text)}")
    return found


def truth(request: Request, name: str) -> bool:
    """Read a truth value, false where it is absent; raises InputError for anything else."""
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise InputError(f"{name} must be true or false, got {shown(text)}")
    return text == "true"
