"""Answers as bytes, written where they were found: never on the loop that serves everybody."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

JSON = "application/json"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encoded(document: object) -> bytes:
    """Write a small document as JSON."""
    return _ENCODER.encode(document).encode("utf-8")


def encoded_list(key: str, items: Iterable[object], **more: Any) -> bytes:
    """Write a document with a list that may be long, and what stands beside it.

    Each item is written by itself: meanwhile no other thread has a turn, and the engine is not to wait.
    """
    inside = b",".join(map(encoded, items))
    beside = b"".join(b",%b:%b" % (encoded(name), encoded(value)) for name, value in more.items())
    return b"{%b:[%b]%b}" % (encoded(key), inside, beside)


def answered(body: bytes) -> Response:
    """Return an answer whose JSON was written already."""
    return Response(body, media_type=JSON)
