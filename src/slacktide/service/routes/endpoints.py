"""How an address of the API is declared: its parameters, its answer as JSON, and the role that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from slacktide.app.task_requests import as_request, read_request, schema_of
from slacktide.app.tokens import Role
from slacktide.core.errors import InputError, shown
from slacktide.service.access import Who

Handler = Callable[[Request], Awaitable[Response]]
JOB = "/api/v1/jobs/{job}"
MOST_WAIT_S = 60.0
MARK = "address"  # the attribute that `endpoint` sets on a method to mark it as a handler
LARGEST = 10**12  # more than any number of an event, worker or attempt, and small enough for SQLite


def says(meaning: str, *, ge: float | None = None, le: float | None = None) -> Meta:
    """Return the description of a parameter in openapi.json, with its bounds."""
    return Meta(description=meaning, ge=ge, le=le)


class Query(Struct, frozen=True, kw_only=True):
    """The query parameters of an address, each with its bounds and its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address, for one method."""

    method: str
    path: str
    handler: Handler
    says: str
    answer: Any = None  # the type of its answer; None: no body
    media: str | tuple[str, ...] = "application/json"
    status: int = 200
    role: Role | None = "read"  # the role that the token must have; None: no token is needed
    body: Any = None  # the type of its body; None: none
    query: type[Query] = Query  # the type of its parameters
    streams: bool = False  # whether clients that accept a stream get one
    timed: bool = True  # whether it answers at once, so that the metrics count how long it takes

    @property
    def name(self) -> str:
        words = self.path.removeprefix("/api/v1/").replace("{", "").replace("}", "")
        return f"{self.method.lower()}_{words.strip('/').replace('/', '_').replace('.', '_')}"


Method = TypeVar("Method", bound=Callable[..., Awaitable[Response]])
Parameters = TypeVar("Parameters", bound=Query)


def endpoint(method: str, path: str, answer: Any = None, **more: Any) -> Callable[[Method], Method]:
    """Mark a method as the handler of an address; `more` are further fields of `Endpoint`.

    The method's docstring is the summary in openapi.json, so it is written for users of the API.
    """

    def mark(handler: Method) -> Method:
        says = " ".join((handler.__doc__ or "").split())
        setattr(handler, MARK, {"method": method, "path": path, "answer": answer, "says": says, **more})
        return handler

    return mark


def caller_of(request: Request) -> Who:
    """Return the sender of a request, as identified by the gate."""
    who: Who = request.scope["state"]["who"]
    return who


def note(say: Callable[[str], None], request: Request, what: str) -> None:
    """Log who did what: the journal does not know the users of a server."""
    say(f"{caller_of(request).name}: {what if what.isprintable() else shown(what)}")


async def body_of(request: Request, kind: Any) -> Any:
    """Read a request's body as this type; raises InputError if it is not one."""
    return read_request(kind, await request.body())


def query_of(request: Request, kind: type[Parameters]) -> Parameters:
    """Read the query parameters of a request; raises InputError for values that are not as documented."""
    given = dict(request.query_params)
    for name, schema in parameters_of(kind).items():
        # msgspec also reads 0, 1 and TRUE as booleans, which the description of the API does not allow.
        if schema["type"] == "boolean" and given.get(name, "true") not in ("true", "false"):
            raise InputError(f"{name} must be true or false, got {shown(given[name])}")
        # It also reads the text `null` as an absent value, for a number or a choice.
        if given.get(name, "").lower() == "null" and (schema["type"] != "string" or "enum" in schema):
            raise InputError(f"{name} must have a value or be left out, got {shown(given[name])}")
    found: Parameters = as_request(kind, given, from_text=True)
    return found


@cache
def parameters_of(kind: type[Query]) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each parameter, with its description."""
    return {name: _given(schema) for name, schema in schema_of(kind)["properties"].items()}


def _given(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without `null` and defaults: no value means that it is left out."""
    found = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    for part in schema.get("anyOf", ()):
        if part.get("type") != "null":
            found.update(part)
    if "enum" in found:
        found["enum"] = [word for word in found["enum"] if word is not None]
    return {"type": "string", **found}


JSON = "application/json"
encoded = msgspec.json.encode


def encoded_list(key: str, items: Iterable[object], **more: Any) -> bytes:
    """Write a JSON document with a list that may be long, and the keys `more` after it.

    Each item is encoded separately, because the encoder lets no other thread run, and the engine must not
    wait for a whole list.
    """
    inside = b",".join(map(encoded, items))
    rest = b"".join(b",%b:%b" % (encoded(name), encoded(value)) for name, value in more.items())
    return b"{%b:[%b]%b}" % (encoded(key), inside, rest)


def answered(body: bytes) -> Response:
    """Return an answer whose body is already encoded as JSON."""
    return Response(body, media_type=JSON)
