"""Sessions of browsers: a cookie names one, and the server knows whose it is and until when."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

COOKIE = "slacktide_session"
LASTING_S = 12 * 3600.0
MOST = 1000
"""Sessions at a time; the oldest one gives way."""


class Session(NamedTuple):
    """Whose a session is, and until when."""

    name: str
    """Of the token that opened it."""
    until_s: float


class Sessions:
    """All sessions, in memory: after a restart people log in again."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._open: dict[str, Session] = {}

    def open(self, name: str) -> str:
        """Open a session for a token, and return the id that the cookie is to hold."""
        self._tidy()
        found = secrets.token_urlsafe(32)
        self._open[_digest(found)] = Session(name, self._monotonic() + LASTING_S)
        return found

    def name_of(self, found: str) -> str | None:
        """Return the name of the token that opened a session; None where there is none, or no more."""
        session = self._open.get(_digest(found))
        if session is None or session.until_s <= self._monotonic():
            return None
        return session.name

    def close(self, found: str) -> None:
        """End a session."""
        self._open.pop(_digest(found), None)

    def _tidy(self) -> None:
        now = self._monotonic()
        for one in [one for one, session in self._open.items() if session.until_s <= now]:
            del self._open[one]
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]


def _digest(found: str) -> str:
    """Return what a session is kept under: memory that leaks tells no cookie."""
    return hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()
