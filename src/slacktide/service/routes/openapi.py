"""Makes the description of the API, openapi.json, from its addresses and the types that they use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from slacktide.app.task_requests import schema_of
from slacktide.service.routes.endpoints import Endpoint, parameters_of
from slacktide.service.routes.forms import Accepted, ErrorAnswer

IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A name for the request: requests with the same key submit one job.",
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
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
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


def _operation(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    error = {"application/json": {"schema": schemas.of(ErrorAnswer)}}
    answers: dict[str, Any] = {str(endpoint.status): _answer(endpoint, schemas)}
    if endpoint.answer is Accepted:
        answers.setdefault("202", _answer(endpoint, schemas))
    if endpoint.path == "/healthz":
        answers["503"] = _answer(endpoint, schemas)
    for status, says in ERRORS.items():
        answers.setdefault(status, {"description": says, "content": error})
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", **PATTERNS.get(name, {})}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.says,
        "parameters": [*in_path, *parameters(endpoint)],
        "responses": answers,
        "security": [] if endpoint.role is None else [{"token": []}, {"session": []}],
    }
    if endpoint.path == "/api/v1/jobs" and endpoint.method == "POST":
        found["parameters"].append(IDEMPOTENCY)
    if endpoint.role is not None:
        found["x-role"] = endpoint.role
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": _body(endpoint.body, schemas)}
    return found


def _answer(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    if endpoint.answer is None:
        return {"description": endpoint.says}
    media = (endpoint.media,) if isinstance(endpoint.media, str) else endpoint.media
    schema = (
        {"type": "string", "format": "binary"} if endpoint.answer is bytes else schemas.of(endpoint.answer)
    )
    content: dict[str, Any] = {kind: {"schema": schema} for kind in media}
    if endpoint.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": endpoint.says, "content": content}


def _body(kind: Any, schemas: Schemas) -> dict[str, Any]:
    if kind is bytes:
        file = {"schema": {"type": "string", "format": "binary"}}
        return {"application/zip": file, "application/octet-stream": file}
    return {"application/json": {"schema": schemas.of(kind)}}


def parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the query parameters of an address."""
    found = []
    for name, schema in parameters_of(endpoint.query).items():
        bounds = {key: value for key, value in schema.items() if key != "description"}
        about = {"name": name, "in": "query", "required": False, "description": schema["description"]}
        found.append({**about, "schema": bounds})
    return found


class Schemas:
    """Collects the schemas of types, so that each named type is written once and referred to by its name."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}

    def of(self, kind: Any) -> Any:
        """Return the schema of a type; raises TypeError for one that has none."""
        (schema,), named = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
        if isinstance(kind, type) and issubclass(kind, Struct):
            self.named[kind.__name__] = {
                name: part for name, part in schema_of(kind).items() if name != "title"
            }
        else:
            self.named |= {name: _answered(part) for name, part in named.items()}
        return _answered(schema)


def _answered(schema: Any) -> Any:
    """Return the schema of an answer: it has no other fields, and numbers that are not finite are null."""
    if isinstance(schema, list):
        return [_answered(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _answered(part) for name, part in schema.items() if name not in ("title", "default")}
    if found.get("type") == "number":
        found["type"] = ["number", "null"]
    if "properties" in found:
        # `class_` stands for `class`, which cannot be the name of a field in Python.
        found["properties"] = {name.rstrip("_"): part for name, part in found["properties"].items()}
        found["required"] = [name.rstrip("_") for name in found.get("required", ())]
        found["additionalProperties"] = False
    return found
