"""HTTP GET of price lists, and the fields of their answers, with every failure turned into one sentence.

Only the standard library is needed. What a source answers is looked up and made into numbers and times here,
or said to be wrong.
"""

from __future__ import annotations

import http.client
import json
import math
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from slacktide.core.errors import InputError, clipped, shown
from slacktide.core.waits import retry_after_s
from slacktide.market.live.base import USD, FeedRefused, FeedUnreachable

TIMEOUT_S = 20.0
MAX_BYTES = 64 << 20  # the most that is read of one answer: catalogs have some 10 MB
MAX_PAGES = 200
PASSING = (408, 425, 429)  # answers below 500 that mean: not now


def check_url(name: str, url: str) -> None:
    """Raise InputError unless this is an address that can be queried."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"{name} must be an http or https address, got {shown(url)}")


def get_json(source: str, url: str, query: Mapping[str, str], secret: str = "") -> dict[str, Any]:
    """Request a JSON object; raises FeedRefused or FeedUnreachable, whose text is without `secret`."""
    data = get_bytes(source, url, query, secret)
    try:
        found = json.loads(data)
    except ValueError:
        raise FeedUnreachable(f"{source} must answer with JSON, got {_beginning(data)}") from None
    if not isinstance(found, dict):
        raise FeedUnreachable(f"{source} must answer with a JSON object, got {_beginning(data)}")
    return found


def get_bytes(source: str, url: str, query: Mapping[str, str], secret: str = "") -> bytes:
    """Request the content of an address; raises FeedRefused or FeedUnreachable."""
    address = f"{url}{'&' if '?' in url else '?'}{urlencode(query)}" if query else url
    request = urllib.request.Request(address, headers={"User-Agent": "slacktide", "Accept": "*/*"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            data: bytes = answer.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise _meant(source, error, secret) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        said = f"no answer within {TIMEOUT_S:.0f} s" if isinstance(reason, TimeoutError) else f"{reason}"
        raise FeedUnreachable(f"{source} must answer, got: {_safe(said, secret)}") from None
    if len(data) > MAX_BYTES:
        raise FeedUnreachable(f"an answer of {source} must have at most {MAX_BYTES >> 20} MiB, got more")
    return data


def pages(source: str, read: Callable[[str], Mapping[str, Any]], key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the pages of an answer; `read` gets what the last one has at `key`, at first an empty text."""
    following = ""
    for _ in range(MAX_PAGES):
        page = read(following)
        yield page
        following = str(page.get(key) or "")
        if not following:
            return
    raise FeedUnreachable(f"an answer of {source} must have at most {MAX_PAGES} pages, got more")


def _meant(source: str, error: urllib.error.HTTPError, secret: str) -> Exception:
    said = f"{source} must answer, got HTTP {error.code} {_safe(str(error.reason), secret)}".rstrip()
    if error.code >= 500 or error.code in PASSING:
        wait = retry_after_s(error.headers.get("Retry-After"), datetime.now(UTC))
        return FeedUnreachable(said, retry_after_s=wait)
    detail = _safe(_detail(error), secret)
    return FeedRefused(f"{said}{': ' if detail else ''}{detail}; check the feed's settings and credentials")


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the sentence with which a service explains a refusal, where there is one."""
    try:
        found = json.loads(error.read(1 << 16))["error"]
        return clipped(str(found["message"] if isinstance(found, dict) else found))
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return ""


def _safe(text: str, secret: str) -> str:
    """Return a text of a source's as it may be shown: without a secret, and without control characters."""
    hidden = text.replace(secret, "***") if secret else text
    return clipped("".join(one if one.isprintable() else " " for one in hidden))


def _beginning(data: bytes) -> str:
    return shown(data[:60].decode("utf-8", "replace")) if data else "nothing"


MOST_PER_HOUR = 1e6  # no machine costs more an hour; greater numbers are slips


def field_of(source: str, entry: object, key: str) -> Any:
    """Return a field of an entry; raises FeedUnreachable where there is none."""
    if not isinstance(entry, Mapping) or entry.get(key) is None:
        came = sorted(map(str, entry)) if isinstance(entry, Mapping) else entry
        raise FeedUnreachable(f"a price of {source} must have {key}, got {shown(came)}")
    return entry[key]


def check_usd(source: str, currency: object) -> None:
    """Raise FeedUnreachable for prices in another currency."""
    if currency != USD:
        raise FeedUnreachable(f"prices of {source} must be in USD, got {shown(str(currency))}")


def entries_of(source: str, answer: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list that an answer must have."""
    found = answer.get(key)
    if not isinstance(found, list):
        raise FeedUnreachable(f"an answer of {source} must have the list {key}, got {shown(sorted(answer))}")
    return found


def price_of(source: str, value: object) -> float:
    """Return an amount of money an hour; raises FeedUnreachable for what is none."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= MOST_PER_HOUR:
        raise FeedUnreachable(f"a price of {source} must be a number in 0..1e6, got {shown(value)}")
    return number


def moment_of(source: str, value: object) -> datetime:
    """Return a time in UTC; raises FeedUnreachable for what is none."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise FeedUnreachable(
            f"a time of {source} must be like 2026-01-31T12:00:00Z, got {shown(value)}"
        ) from None
