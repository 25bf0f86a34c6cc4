"""Results as values of JSON and CSV: structures by the names of their fields, null for what is not finite."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from slacktide.core.quotes import UNLIMITED_GPUS, Quote

AS_THEY_ARE = frozenset({str, int, bool, type(None)})  # types whose values JSON holds as they are


def plain(value: Any) -> Any:
    """Return a value as JSON holds it: dataclasses and NamedTuples as objects, null for infinity and NaN.

    Times are written in UTC. On-demand GPUs are left out of a quote that does not limit them.
    """
    kind = type(value)
    if kind in AS_THEY_ARE:  # first, because most values are of these
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Quote) and value.on_demand_gpus >= UNLIMITED_GPUS:
        return plain({name: field for name, field in value._asdict().items() if name != "on_demand_gpus"})
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return utc(value)
    return value.item() if hasattr(value, "item") else value  # a scalar of NumPy


def document(fields: Any) -> dict[str, Any]:
    """Return a result, or a mapping of its fields, as a JSON object."""
    found: dict[str, Any] = plain(fields)
    return found


def picked(thing: object, *names: str) -> dict[str, Any]:
    """Return attributes of a result under their own names, in this order."""
    return {name: getattr(thing, name) for name in names}


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return one line for each row, at least one, under the first row's keys; None becomes an empty cell."""
    lines = list(rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def utc(time: datetime) -> str:
    """Write a time as `2025-10-04T22:40:00Z`."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
