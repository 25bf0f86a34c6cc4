"""JSON files, read with the line and column of what breaks them."""

from __future__ import annotations

import json
from typing import Any

from slacktide.core.errors import FileError
from slacktide.market.formats.reading.market_bytes import as_text


def json_object(data: bytes, path: str) -> dict[str, Any]:
    """Return the object a JSON file holds; raises FileError if it is broken or something else."""
    text = as_text(data, path)
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise FileError(
            f"must be well-formed JSON, got: {error.msg}", path=path, line=error.lineno, column=error.colno
        ) from None
    except ValueError:  # Python reads no whole numbers of thousands of digits
        raise FileError(
            "must be JSON with sensible numbers, got one with thousands of digits", path=path
        ) from None
    except RecursionError:
        raise FileError("must be JSON nested a few levels deep, got too many", path=path) from None
    if not isinstance(found, dict):
        raise FileError(f"must be a JSON object, got {kind_of(found)}", path=path)
    return found


def kind_of(value: Any) -> str:
    """Name the JSON kind of a value, with an article."""
    kinds = {dict: "an object", list: "an array", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
