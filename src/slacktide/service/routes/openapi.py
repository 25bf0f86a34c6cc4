"""The description of the API (openapi.json), made from its addresses and the types that they use."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from msgspec import Struct

from slacktide.app.task_requests import schema_of
from slacktide.service.routes.endpoints import Endpoint, parameters_of
from slacktide.service.routes.forms import Accepted, ErrorAnswer

IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Names the request: the same key is the same job.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
PATTERNS = {"sha256": {"pattern": "^[0-9a-f]{64}$"}}  # what parts of a path look like
ERRORS = {
    "400": "What was sent cannot be used.",
    "401": "No token, or a wrong one.",
    "403": "The token may not do this, or the request came from another site.",
    "404": "Not found.",
    "408": "The body took too long to arrive.",
    "409": "It cannot be met, or conflicts with an earlier request.",
    "413": "The body is too large.",
    "421": "The Host is not a name of this server.",
    "429": "Too many requests.",
    "500": "Something went wrong; the server's log says what.",
    "502": "Something that the server depends on failed.",
    "503": "The server is unhealthy, or busy.",
}


def described(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these addresses."""
    schemas, paths = Schemas(), dict[str, dict[str, Any]]()
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Slacktide",
            "version": version("slacktide"),
            "description": "Rents GPUs for training jobs. JSON keys are those of the commands' `-o json`.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.named,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "NAME:SECRET"},
                "session": {"type": "apiKey", "in": "cookie", "name": "slacktide_session"},
            },
        },
    }


def _operation(one: Endpoint, schemas: Schemas) -> dict[str, Any]:
    error = {"application/json": {"schema": schemas.of(ErrorAnswer)}}
    answers: dict[str, Any] = {str(one.status): _answer(one, schemas)}
    if one.answer is Accepted:
        answers.setdefault("202", _answer(one, schemas))
    if one.path == "/healthz":
        answers["503"] = _answer(one, schemas)
    for status, says in ERRORS.items():
        answers.setdefault(status, {"description": says, "content": error})
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", **PATTERNS.get(name, {})}}
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.says,
        "parameters": [*in_path, *parameters(one)],
        "responses": answers,
        "security": [] if one.role is None else [{"token": []}, {"session": []}],
    }
    if one.path == "/api/v1/jobs" and one.method == "POST":
        found["parameters"].append(IDEMPOTENCY)
    if one.role is not None:
        found["x-role"] = one.role
    if one.body is not None:
        found["requestBody"] = {"required": True, "content": _body(one.body, schemas)}
    return found


def _answer(one: Endpoint, schemas: Schemas) -> dict[str, Any]:
    if one.answer is None:
        return {"description": one.says}
    media = (one.media,) if isinstance(one.media, str) else one.media
    schema = {"type": "string", "format": "binary"} if one.answer is bytes else schemas.of(one.answer)
    content: dict[str, Any] = {kind: {"schema": schema} for kind in media}
    if one.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": one.says, "content": content}


def _body(kind: Any, schemas: Schemas) -> dict[str, Any]:
    if kind is bytes:
        file = {"schema": {"type": "string", "format": "binary"}}
        return {"application/zip": file, "application/octet-stream": file}
    return {"application/json": {"schema": schemas.of(kind)}}


def parameters(one: Endpoint) -> list[dict[str, Any]]:
    """Return the parameters of an address after the question mark."""
    found = []
    for name, schema in parameters_of(one.query).items():
        bounds = {key: value for key, value in schema.items() if key != "description"}
        about = {"name": name, "in": "query", "required": False, "description": schema["description"]}
        found.append({**about, "schema": bounds})
    return found


Schema = dict[str, Any]

PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": ["number", "null"]},
    Any: {},
    type(None): {"type": "null"},
}


class Schemas:
    """Writes the schemas of types, each of ours once, to be referred to by its name."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}

    def of(self, hint: Any) -> Schema:
        """Return the schema of a type; raises TypeError for one that has none."""
        if hint in PLAIN:
            return dict(PLAIN[hint])
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"type": "string", "enum": list(inner)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in inner]}
        if origin in (list, tuple, Sequence):
            return {"type": "array", "items": self.of(inner[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        if isinstance(hint, type) and issubclass(hint, Struct):
            return self._request(hint)
        if is_typeddict(hint) or (dataclasses.is_dataclass(hint) and isinstance(hint, type)):
            return self._named(hint)
        raise TypeError(f"a type of the API must be one that JSON can hold, got {hint!r}")

    def _request(self, kind: type[Struct]) -> Schema:
        about = {name: value for name, value in schema_of(kind).items() if name != "title"}
        self.named[kind.__name__] = {"required": [], **about}
        return {"$ref": f"#/components/schemas/{kind.__name__}"}

    def _named(self, kind: type[Any]) -> Schema:
        name = kind.__name__
        if name not in self.named:
            self.named[name] = {}  # so that a type may hold itself
            self.named[name] = self._object(kind)
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, kind: type[Any]) -> Schema:
        hints, properties, required = get_type_hints(kind, include_extras=True), {}, []
        known = {one.name: one for one in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}
        for name, hint in hints.items():
            one = known.get(name)
            shown = name if one is None else one.metadata.get("name", name)
            properties[shown] = self.of(get_args(hint)[0] if get_origin(hint) is NotRequired else hint)
            if get_origin(hint) is not NotRequired and (one is None or not has_default(one)):
                required.append(shown)
        said = (kind.__doc__ or "").strip().split("\n\n")[0]
        found: Schema = {"type": "object", "description": " ".join(said.split()), "properties": properties}
        return {**found, "required": required, "additionalProperties": False}


def has_default(one: dataclasses.Field[Any]) -> bool:
    """Whether a field of a dataclass may be left out."""
    return not (one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING)
