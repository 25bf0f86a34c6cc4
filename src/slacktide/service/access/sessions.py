"""Sessions of browsers: a cookie names one, and the server knows whose it is and until when."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from slacktide.app.tokens import digest
from slacktide.core.errors import FileError
from slacktide.core.files import keep_from_others, write_private
from slacktide.journal.codec.json_forms import Misfit, form
from slacktide.journal.store.paths import hidden_sibling

COOKIE = "slacktide_session"
LASTING_S = 12 * 3600.0
MOST = 1000  # sessions at a time; the oldest one gives way


class Session(NamedTuple):
    """Whose a session is, and until when."""

    name: str  # of the token that opened it
    token: str  # the digest of that token: another one of the same name does not take the session over
    until_s: float  # by the wall clock


class Sessions:
    """All sessions by digests of their ids; where they are kept in a private file, a restart ends none."""

    def __init__(self, clock: Callable[[], float] = time.time, file: Path | None = None) -> None:
        self._clock, self._file, self._lock = clock, file, threading.Lock()
        self._open = {} if file is None else _read(file)

    def open(self, name: str, token: str) -> str:
        """Open a session for a token, and return the id that the cookie is to hold."""
        found = secrets.token_urlsafe(32)
        with self._lock:
            self._tidy()
            self._open[digest(found)] = Session(name, token, self._clock() + LASTING_S)
            self._write()
        return found

    def of(self, found: str) -> Session | None:
        """Return the session of an id; None where there is none, or no more."""
        session = self._open.get(digest(found))
        return None if session is None or session.until_s <= self._clock() else session

    def close(self, found: str) -> None:
        """End a session."""
        with self._lock:
            if self._open.pop(digest(found), None) is not None:
                self._write()

    def _tidy(self) -> None:
        now = self._clock()
        for one in [one for one, session in self._open.items() if session.until_s <= now]:
            del self._open[one]
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]

    def _write(self) -> None:
        if self._file is None:
            return
        kind = form(dict[str, Session])
        with contextlib.suppress(FileError):  # then people log in again after a restart
            write_private(self._file, kind.text(kind.plain(self._open)).encode())


def sessions_of(journal: Path) -> Sessions:
    """Return the sessions of a journal's server."""
    return Sessions(file=hidden_sibling(journal, "sessions"))


def _read(file: Path) -> dict[str, Session]:
    """Read what an earlier server left; nothing where that is of no use, so that people log in again."""
    keep_from_others(file)
    try:
        found: dict[str, Session] = dict(form(dict[str, Session]).read(json.loads(file.read_bytes())))
    except (OSError, ValueError, Misfit, RecursionError):
        return {}
    return found
