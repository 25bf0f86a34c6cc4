"""Writes answers as JSON bytes in the thread that computed them, not on the loop that serves all requests."""

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
    """Write a document with a list that may be long, and the keys `more` after it.

    Each item is written by itself: the encoder does not let other threads run, and the engine must not wait
    for a whole list.
    """
    inside = b",".join(map(encoded, items))
    rest = b"".join(b",%b:%b" % (encoded(name), encoded(value)) for name, value in more.items())
    return b"{%b:[%b]%b}" % (encoded(key), inside, rest)


def answered(body: bytes) -> Response:
    """Return an answer from JSON that is already written."""
    return Response(body, media_type=JSON)
