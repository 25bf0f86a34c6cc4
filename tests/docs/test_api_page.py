"""The reference of the API is written from its own description."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from slacktide.service.handler_context import HandlerContext
from slacktide.service.routes.endpoints import Endpoint
from slacktide.service.routes.openapi import ERRORS, described, parameters
from slacktide.service.server import endpoints_of

ROOT = Path(__file__).parents[2]


class Nothing:
    """Stands for a server: only its addresses are asked for."""

    reader = None


def reference() -> str:
    """Write every address with what it takes and answers."""
    endpoints = endpoints_of(cast(HandlerContext, Nothing()))
    document = described(endpoints)
    parts = [
        "# HTTP API\n",
        "Written from `/api/v1/openapi.json`, which says the same for programs. Send the token as "
        "`Authorization: Bearer NAME:SECRET`. JSON keys are those of the commands' [`-o json`](json.md). "
        "[How to run a server](../howto/serve.md).\n",
        'An error is `{"error": {"kind", "message", "exit_code"}}`; the exit code is the command line\'s.\n',
        "| status | meaning |\n|---|---|",
        *(f"| {status} | {says} |" for status, says in ERRORS.items()),
        "",
        *(part for one in endpoints for part in section(one)),
        "## Types\n",
        *(
            part
            for name, schema in sorted(document["components"]["schemas"].items())
            for part in fields(name, schema)
        ),
    ]
    return "\n".join(parts).rstrip() + "\n"


def section(one: Endpoint) -> list[str]:
    """Write one address."""
    needs = "no token" if one.role is None else f"role `{one.role}`"
    body = "" if one.body is None else f" Body: `{getattr(one.body, '__name__', one.body)}`."
    kind = getattr(one.answer, "__name__", "object") if one.answer is not None else "nothing"
    told = [
        f"## `{one.method} {one.path}`\n",
        f"{one.says} Needs {needs}.{body} Answers {one.status}: `{kind}`.\n",
    ]
    if listed := parameters(one):
        told += ["| parameter | type | meaning |", "|---|---|---|"]
        told += [
            f"| `{param['name']}` | {param['schema']['type']} | {param['description']} |" for param in listed
        ]
        told.append("")
    return told


def fields(name: str, schema: dict[str, Any]) -> list[str]:
    """Write the fields of a type."""
    listed = ", ".join(
        f"`{field}`" + ("" if field in schema["required"] else "?") for field in schema["properties"]
    )
    return [f"- **{name}**: {schema['description']} {listed or 'No fields.'}"]


def test_the_api_reference_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "docs/reference/api.md", reference())


def test_every_address_is_under_the_version_or_known_to_machines() -> None:
    for one in endpoints_of(cast(HandlerContext, Nothing())):
        assert one.path.startswith("/api/v1/") or one.path in ("/healthz", "/metrics")
        assert one.says.endswith(".")
