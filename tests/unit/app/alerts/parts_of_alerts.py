"""Alerts, records and hooks to try with, and a receiver on the loopback that answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from slacktide.app.alerts.address import parse_target
from slacktide.app.alerts.alert import Alert, Hook
from slacktide.journal.events import Event, Record

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = b"0123456789abcdef"


def records(*events: Event, first: int = 1) -> list[Record]:
    """Number events as a journal does."""
    return [Record(first + place, NOW, event) for place, event in enumerate(events)]


def alert(number: int = 1, kind: str = "done", job: str = "train") -> Alert:
    """Return an alert to send."""
    return Alert(
        id=f"{number}-{kind}-x", kind=kind, journal="j", seq=number, time_utc="2026-01-01T00:00:00Z",
        text=f"{job} <&> is over", job=job, owner="ann", details={"cost_usd": 1.5},
    )  # fmt: skip


def webhook(url: str, name: str = "ops") -> Hook:
    """Return a hook that may be on the loopback."""
    return Hook(name=name, target=parse_target(url), allow_private=True, secret=SECRET)


class Came(NamedTuple):
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    """Answers with these statuses, one after the other, and then with 200."""

    daemon_threads = True

    def __init__(self, answers: Sequence[tuple[int, Mapping[str, str]]] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.came = list(answers), list[Came]()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}/hush/path?token=hush"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came.append(Came(self.path, dict(self.headers), body))
        status, headers = self.server.answers.pop(0) if self.server.answers else (200, {})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *said: object) -> None:
        """Say nothing."""


@contextmanager
def receiver(*answers: int | tuple[int, Mapping[str, str]]) -> Iterator[Receiver]:
    """Let a receiver listen while the block runs."""
    told = [(one, {}) if isinstance(one, int) else one for one in answers]
    with Receiver(told) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
