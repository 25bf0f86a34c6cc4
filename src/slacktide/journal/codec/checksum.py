"""A checksum in every event that is written, so that what was damaged on the disk is never taken for true.

It is the last field of the event's JSON, over all before it and over the time at which it was written. Events
of before have none: of those it is seen at least that times are times and JSON is JSON.
"""

from __future__ import annotations

import json
import zlib
from datetime import datetime
from typing import Any

from slacktide.core.errors import InputError

CRC = "crc"
"""The key of the checksum, next to the fields of an event."""
JSON_TEXTS = {"Submitted": ("policy", "market"), "SiteOpened": ("market",), "Remembered": ("memory",)}
"""Fields of events whose text is JSON in turn."""


def sealed(stamp: str, text: str) -> str:
    """Return the JSON of an event with its checksum."""
    return f'{text[:-1]}, "{CRC}": {_sum(stamp, text[:-1])}}}'


def unsealed(stamp: str, line: str, tree: Any) -> Any:
    """Return what was parsed of an event without its checksum; raises InputError where that does not fit."""
    if not isinstance(tree, dict):
        return tree
    if CRC not in tree:
        texts = JSON_TEXTS.get(str(tree.get("kind")), ())
        for name, value in tree.items():
            if isinstance(value, str) and value:
                _check_sense(name, value, texts)
        return tree
    body = line[: line.rfind(f', "{CRC}": ')]
    if tree.pop(CRC) != _sum(stamp, body):
        raise InputError("an event must be as it was written, got one with another checksum: it was damaged")
    return tree


def _check_sense(name: str, value: str, texts: tuple[str, ...]) -> None:
    """Raise InputError for a text that others will take for a time or for JSON and that is none."""
    try:
        if name.endswith("_utc"):
            datetime.fromisoformat(value)
        elif name in texts:
            json.loads(value)
    except (ValueError, RecursionError):
        raise InputError(f"{name} must be readable, got {value!r:.60}: it was damaged") from None


def _sum(stamp: str, body: str) -> int:
    return zlib.crc32(f"{stamp} {body}".encode("utf-8", "surrogatepass"))
