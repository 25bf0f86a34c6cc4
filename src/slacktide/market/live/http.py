"""HTTP GET of price lists, and the fields of their answers, with every failure turned into one sentence.

Only the standard library is needed. Fields of answers are converted to numbers and times here, or refused.
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
MOST_PER_HOUR = 1e6  # no machine costs more per hour; greater numbers are mistakes
PASSING = (408, 425, 429)  # status codes below 500 that mean: try again later


def check_url(name: str, url: str) -> None:
    """Raise InputError unless this is an address that can be queried."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"{name} must be an http or https address, got {shown(url)}")


class Source:
    """Requests to a source of prices, and the fields of its answers; errors name the source.

    Methods raise FeedUnreachable for an unreadable answer, and FeedRefused if a retry would not help.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __str__(self) -> str:
        return self._name

    def get_json(self, url: str, query: Mapping[str, str], secret: str = "") -> dict[str, Any]:
        """Request a JSON object; error messages do not contain `secret`."""
        data = self.get_bytes(url, query, secret)
        came = shown(data[:60].decode("utf-8", "replace")) if data else "nothing"
        try:
            found = json.loads(data)
        except ValueError:
            raise FeedUnreachable(f"{self} must answer with JSON, got {came}") from None
        if not isinstance(found, dict):
            raise FeedUnreachable(f"{self} must answer with a JSON object, got {came}")
        return found

    def get_bytes(self, url: str, query: Mapping[str, str], secret: str = "") -> bytes:
        """Request the content of an address."""
        address = f"{url}{'&' if '?' in url else '?'}{urlencode(query)}" if query else url
        request = urllib.request.Request(address, headers={"User-Agent": "slacktide", "Accept": "*/*"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                data: bytes = answer.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise _meant(self, error, secret) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            said = f"no answer within {TIMEOUT_S:.0f} s" if isinstance(reason, TimeoutError) else f"{reason}"
            raise FeedUnreachable(f"{self} must answer, got: {_safe(said, secret)}") from None
        if len(data) > MAX_BYTES:
            raise FeedUnreachable(f"an answer of {self} must have at most {MAX_BYTES >> 20} MiB, got more")
        return data

    def entries(self, read: Callable[[str], Mapping[str, Any]], following: str, key: str) -> Iterator[Any]:
        """Yield the entries at `key` of all pages.

        `read` gets what the page before has at `following`, and for the first page an empty text.
        """
        token = ""
        for _ in range(MAX_PAGES):
            page = read(token)
            found = page.get(key)
            if not isinstance(found, list):
                must = f"an answer of {self} must have the list {key}"
                raise FeedUnreachable(f"{must}, got {shown(sorted(page))}")
            yield from found
            token = str(page.get(following) or "")
            if not token:
                return
        raise FeedUnreachable(f"an answer of {self} must have at most {MAX_PAGES} pages, got more")

    def field(self, entry: object, key: str) -> Any:
        """Return a field that an entry must have."""
        if not isinstance(entry, Mapping) or entry.get(key) is None:
            came = sorted(map(str, entry)) if isinstance(entry, Mapping) else entry
            raise FeedUnreachable(f"a price of {self} must have {key}, got {shown(came)}")
        return entry[key]

    def check_usd(self, currency: object) -> None:
        """Raise FeedUnreachable for prices in another currency."""
        if currency != USD:
            raise FeedUnreachable(f"prices of {self} must be in USD, got {shown(str(currency))}")

    def price(self, value: object) -> float:
        """Return an amount of money per hour."""
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 <= number <= MOST_PER_HOUR:
            raise FeedUnreachable(f"a price of {self} must be a number in 0..1e6, got {shown(value)}")
        return number

    def moment(self, value: object) -> datetime:
        """Return a time in UTC."""
        try:
            found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            must = f"a time of {self} must be like 2026-01-31T12:00:00Z"
            raise FeedUnreachable(f"{must}, got {shown(value)}") from None


def _meant(source: Source, error: urllib.error.HTTPError, secret: str) -> Exception:
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
    """Return a source's text as it may be shown: without the secret and without control characters."""
    hidden = text.replace(secret, "***") if secret else text
    return clipped("".join(character if character.isprintable() else " " for character in hidden))
