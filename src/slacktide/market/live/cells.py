"""Fields of an answer: looked up and made into numbers and times, or said to be wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slacktide.core.errors import shown
from slacktide.market.live.base import FeedUnreachable

MOST_PER_HOUR = 1e6
"""No machine costs more an hour; greater numbers are slips."""


def field(source: str, entry: object, key: str) -> Any:
    """Return a field of an entry; raises FeedUnreachable where there is none."""
    if not isinstance(entry, Mapping) or entry.get(key) is None:
        came = sorted(map(str, entry)) if isinstance(entry, Mapping) else entry
        raise FeedUnreachable(f"a price of {source} must have {key}, got {shown(came)}")
    return entry[key]


def entries(source: str, answer: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list that an answer must have."""
    found = answer.get(key)
    if not isinstance(found, list):
        raise FeedUnreachable(f"an answer of {source} must have the list {key}, got {shown(sorted(answer))}")
    return found


def price(source: str, value: object) -> float:
    """Return an amount of money an hour; raises FeedUnreachable for what is none."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= MOST_PER_HOUR:
        raise FeedUnreachable(f"a price of {source} must be a number in 0..1e6, got {shown(value)}")
    return number


def moment(source: str, value: object) -> datetime:
    """Return a time in UTC; raises FeedUnreachable for what is none."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise FeedUnreachable(
            f"a time of {source} must be like 2026-01-31T12:00:00Z, got {shown(value)}"
        ) from None


def price_nanos(source: str, value: object) -> float:
    """Return billionths of a unit of money as money."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise FeedUnreachable(f"a price of {source} must have whole nanos, got {shown(value)}")
    return value * 1e-9
