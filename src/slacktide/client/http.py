"""Sends HTTP requests to a Slacktide server, with the standard library: JSON both ways, and event streams."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from slacktide.core.errors import BackendError, InputError, SlacktideError, shown

TOKEN = "SLACKTIDE_TOKEN"
ANSWER_S = 120.0  # how long an answer may take; the longest are plans that compile
RETRY_S = 60.0  # how long to keep trying when a server cannot be reached or is busy
PAUSE_S = 0.5
PATIENCE_S = 2.0  # after this long without an answer the user is told
BUSY = (429, 503)  # statuses after which a request is repeated
NOT_THERE = (502, 503, 504)
"""Statuses with which a proxy answers for itself while the server behind it cannot be reached."""
FILE_S = 330.0  # how long a page or picture may take: a little longer than a server gives itself for one
MOST_BYTES = 256 << 20  # of an answer, or of a line in a stream: more than any server sends
_PIECE_BYTES = 1 << 16
BEAT_S = 60.0
"""A stream that is silent for this long counts as broken: a server sends something four times as often."""
NOTHING: Mapping[str, str] = MappingProxyType({})
Answer = TypeVar("Answer")
OnProgress = Callable[[int, int, int], None]
"""Receives how many requests are ahead in the queue, how many steps of this one are done, and of how many."""


def ignore_progress(ahead: int, done: int, total: int) -> None:
    """Show nothing."""


class ServerError(SlacktideError):
    """An error that a server answered, with the exit code that the command has to end with."""

    def __init__(self, message: str, exit_code: int, http_status: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.http_status = http_status


class UntrustedError(BackendError):
    """A server could not prove its identity."""


class AwayError(BackendError):
    """A proxy answered in place of a server that it could not reach, for instance during a restart."""


class Document(dict[str, Any]):
    """A JSON object in an answer; to read a key that it lacks raises ServerError."""

    def __missing__(self, name: str) -> Any:
        raise strange(f"one without {shown(name)}")

    def pop(self, name: str, *usual: Any) -> Any:
        """Remove a key and return its value; raises ServerError if it is missing and there is no default."""
        return super().pop(name, *usual) if usual or name in self else self[name]


def strange(what: str) -> ServerError:
    """Return the error for an answer that no server of this version gives."""
    return ServerError(
        f"a server must answer as documented, got {what}; check that the address is that of a Slacktide "
        "server, and of this version",
        4,
        502,
    )


class Frame(NamedTuple):
    """A message of a stream."""

    kind: str
    id: str
    data: str


class Client:
    """Sends requests to one server."""

    def __init__(
        self, url: str, token: str | None = None, notify: Callable[[str], None] = lambda line: None
    ) -> None:
        """Check the address and the token, which is taken from the environment unless it is given.

        `notify` gets a line when the server does not answer for a while.
        """
        self._notify = notify
        self._parts, self.url = _parts_of(url), url
        self._token = (os.environ.get(TOKEN, "") if token is None else token).strip()
        if not (self._token.isascii() and self._token.isprintable()):
            raise InputError(f"a token must be printable ASCII characters, got others; see {TOKEN}")
        if not self._token:
            must = "a server must be used with a token, got none"
            raise InputError(f"{must}; set {TOKEN} to NAME:SECRET, or token in your settings")

    def get(self, path: str, **query: object) -> Document:
        """Send a GET request; it is repeated while the server cannot be reached."""
        return self._patiently(lambda: self._answer("GET", _with_query(path, query)))

    def post(
        self, path: str, body: object, headers: Mapping[str, str] = NOTHING, again: bool = False
    ) -> Document:
        """Send a POST request; `again`: it may arrive twice, so it is repeated until the server answers."""

        def once() -> Document:
            return self._answer("POST", path, json.dumps(body).encode(), headers)

        return self._patiently(once) if again else once()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        on_progress: OnProgress = ignore_progress,
        *,
        again: bool = True,
        **query: object,
    ) -> Document:
        """Send a request that takes a while to answer, and report its progress.

        `again`: it changes nothing, so it may arrive twice, and is repeated until the server answers.
        """
        raw = None if body is None else json.dumps(body).encode()
        headers = {"accept": "text/event-stream, application/json"}

        def once() -> Document:
            with self._response(method, _with_query(path, query), raw, headers, BEAT_S) as response:
                if "text/event-stream" in response.headers.get("content-type", ""):
                    return _awaited(_parsed(response), on_progress)
                return _check(response.status, _content(response))

        return self._patiently(once) if again else once()

    def file(self, path: str, **query: object) -> bytes:
        def once() -> bytes:
            with self._response(
                "GET", _with_query(path, query), headers={"accept": "*/*"}, timeout_s=FILE_S
            ) as response:
                content = _content(response)
            if response.status != 200:
                _check(response.status, content)
                raise strange(f"the status {response.status}")
            return content

        return self._patiently(once)

    def delete(self, path: str) -> None:
        """Send a DELETE request, which may arrive twice."""
        self._patiently(lambda: self._answer("DELETE", path))

    def put(self, path: str, body: bytes) -> None:
        headers = {"content-type": "application/octet-stream"}
        self._patiently(lambda: self._answer("PUT", path, body, headers))

    def stream(self, path: str, after: int, **query: object) -> Iterator[Frame]:
        """Yield the messages of a stream after an event; a broken connection is opened again."""
        last = str(after)
        while True:
            try:
                for frame in self._frames(_with_query(path, query), last):
                    last = frame.id or last
                    yield frame
                    if frame.kind == "over":
                        return
            except BackendError:
                pass  # it is opened again, after the last message that arrived
            time.sleep(PAUSE_S)
            self.get("/api/v1/session")  # so that a server that is gone for good is noticed

    def _frames(self, path: str, last: str) -> Iterator[Frame]:
        headers = {"accept": "text/event-stream", "last-event-id": last}
        with self._response("GET", path, headers=headers, timeout_s=BEAT_S) as response:
            if response.status != 200:
                _check(response.status, _content(response))
            yield from _parsed(response)

    def _patiently(self, once: Callable[[], Answer]) -> Answer:
        began_s, notified = time.monotonic(), False
        until = began_s + RETRY_S
        while True:
            if not notified and time.monotonic() - began_s > PATIENCE_S:
                self._notify(f"{self.url} does not answer; trying for {RETRY_S:g} s, Ctrl-C stops")
                notified = True
            try:
                return once()
            except ServerError as error:
                if error.http_status not in BUSY or time.monotonic() > until:
                    raise
            except UntrustedError:
                raise  # trying again does not help
            except BackendError:
                if time.monotonic() > until:
                    raise
            time.sleep(PAUSE_S)

    def _answer(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = NOTHING
    ) -> Document:
        with self._response(method, path, body, headers) as response:
            return _check(response.status, _content(response))

    @contextmanager
    def _response(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = NOTHING,
        timeout_s: float = ANSWER_S,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; raises BackendError if the connection breaks, even while the answer is read."""
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=timeout_s)
        usual = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, body, {**usual, **headers})
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _unreachable(self, error: Exception) -> BackendError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return UntrustedError(
                f"the server {self.url} must have a certificate for this name that this machine trusts, "
                f"got: {error.verify_message}; name a file of certificates to trust in SSL_CERT_FILE"
            )
        if isinstance(error, ssl.SSLError):
            return UntrustedError(
                f"the server {self.url} must speak TLS, got: {error.reason}; if it does not, use http://"
            )
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return BackendError(f"the server {self.url} must be reachable, got: {reason}")


def _parts_of(url: str) -> urllib.parse.SplitResult:
    """Split the address of a server; raises InputError for anything else."""
    try:
        parts = urllib.parse.urlsplit(url)
        odd = parts.port == 0 or parts.query or parts.username or not re.fullmatch(r"[!-~]*", url)
    except ValueError:
        odd = True
    if odd or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"a server must be given as http://HOST:PORT or https://HOST, got {shown(url)}")
    return parts


def _with_query(path: str, query: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _content(answer: http.client.HTTPResponse) -> bytes:
    """Read an answer to its end; raises ServerError for one that is too large, or takes too long."""
    data, left, until_s = bytearray(), answer.length, time.monotonic() + FILE_S
    while left is None or len(data) < left:
        piece = answer.read1(_PIECE_BYTES if left is None else min(_PIECE_BYTES, left - len(data)))
        if not piece:
            break
        data += piece
        if len(data) > MOST_BYTES:
            raise strange(f"more than {MOST_BYTES >> 20} MB")
        if time.monotonic() > until_s:
            raise strange(f"one that is not whole after {FILE_S:g} s")
    if left is not None and len(data) < left:
        raise http.client.IncompleteRead(b"", left - len(data))
    return bytes(data)


def _check(status: int, body: bytes) -> Document:
    """Return the answer of a server; raises ServerError if it is an error, AwayError if a proxy answered."""
    if 300 <= status < 400:
        raise ServerError(
            f"a server must answer itself, got a redirect (status {status}), which is not followed; name the "
            "address that it leads to",
            4,
            status,
        )
    if status < 400:
        return Document() if status == 204 else document(body)
    try:
        error = document(body).get("error")
    except ServerError:
        error = None
    if not isinstance(error, Document) and status in NOT_THERE:
        raise AwayError(f"the server must be reachable for the proxy in front of it, got status {status}")
    if not isinstance(error, Document):
        raise ServerError(f"the server must answer with JSON, got status {status}", 4, status)
    code = error.get("exit_code")
    known = code if isinstance(code, int) and 0 < code < 256 else 4
    raise ServerError(str(error.get("message")), known, status)


def document(text: str | bytes) -> Document:
    """Read an object of JSON; raises ServerError for anything else."""
    try:
        value = json.loads(text, object_hook=Document)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, Document):
        raise strange("something else than an object of JSON")
    return value


def _awaited(frames: Iterator[Frame], on_progress: OnProgress) -> Document:
    """Read a stream up to its answer, and report progress; raises ServerError if the answer is an error."""
    for frame in frames:
        message = document(frame.data)
        if frame.kind == "answer":
            return message
        if frame.kind == "error":
            status = message["status"]
            _check(status if status in range(400, 600) else 502, frame.data.encode())
        on_progress(*(_count(message[name]) for name in ("ahead", "done", "total")))
    raise http.client.IncompleteRead(b"")


def _count(value: object) -> int:
    return int(value) if isinstance(value, int) else 0


def _parsed(lines: Any) -> Iterator[Frame]:
    kind, number, data = "", "", list[str]()
    for raw in iter(lambda: lines.readline(MOST_BYTES), b""):
        if len(raw) == MOST_BYTES:
            raise strange(f"a line of more than {MOST_BYTES >> 20} MB")
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield Frame(kind, number, "\n".join(data))
            kind, number, data = "", "", []
        elif name == "data":
            data.append(value)
        elif name == "id":
            number = value
        elif name == "event":
            kind = value
