"""Access control of the server: tokens, roles, browser sessions, and rate and size limits.

`Gate` lets only requests for this host, with a valid token and of a bounded size, reach the routes. The role
that a route needs is checked in `server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slacktide.app.tokens import Role, Tokens, digest
from slacktide.backends.machines.launch_package import MOST_BYTES
from slacktide.core.errors import FileError, SlacktideError
from slacktide.core.files import keep_from_others, write_private
from slacktide.journal.codec.json_forms import FormMismatch, form
from slacktide.journal.store.paths import hidden_sibling

CALLERS = 10_000  # callers whose rate is remembered; beyond that the least recent one is forgotten


class TooMuchError(SlacktideError):
    """A caller sent more requests, or has more of something open, than it may."""

    exit_code = 4
    http_status = 429
    retry_after_s = 1


class _Bucket(NamedTuple):
    left: float
    at_s: float


class Rate:
    """A token bucket for each caller: `per_s` requests per second on average, up to `burst` at once."""

    def __init__(self, per_s: float, burst: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._monotonic = per_s, burst, monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> bool:
        """Count a request; return whether it is within the caller's limit."""
        now = self._monotonic()
        left = self._left(caller, now)
        self._buckets[caller] = _Bucket(left - 1.0 if left >= 1.0 else left, now)
        self._buckets.move_to_end(caller)
        while len(self._buckets) > CALLERS:
            self._buckets.popitem(last=False)
        return left >= 1.0

    def is_spent(self, caller: str) -> bool:
        """Whether the caller's next request would exceed the limit; counts nothing."""
        return self._left(caller, self._monotonic()) < 1.0

    def _left(self, caller: str, now: float) -> float:
        known = self._buckets.get(caller)
        if known is None:
            return self._burst
        return min(self._burst, known.left + (now - known.at_s) * self._per_s)


class Slots:
    """Limits how many streams or uploads may be open at a time, for each caller and in total."""

    def __init__(self, most: int, each: int, what: str) -> None:
        self._most, self._each, self._what = most, each, what
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        return self._held.total()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Hold a slot while the block runs; raises TooMuchError if none is free."""
        if self.held >= self._most or self._held[caller] >= self._each:
            raise TooMuchError(
                f"{self._what} must be at most {self._each} for each caller and {self._most} in all, got "
                "more; close one first"
            )
        self._held[caller] += 1
        try:
            yield
        finally:
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]


COOKIE = "slacktide_session"
LASTING_S = 12 * 3600.0
MOST = 1000  # sessions at a time; a new one beyond that ends the oldest


class Session(NamedTuple):
    """The token that opened a session, and when the session ends."""

    name: str  # of the token that opened it
    token: str  # the digest of that token: a later token of the same name cannot use the session
    until_s: float  # in epoch seconds


class Sessions:
    """The open sessions, by the digests of their ids. In a private file they survive a restart."""

    def __init__(self, clock: Callable[[], float] = time.time, file: Path | None = None) -> None:
        self._clock, self._file, self._lock = clock, file, threading.Lock()
        self._open = {} if file is None else _read(file)

    def open(self, name: str, token: str) -> str:
        """Open a session for a token, and return the id to put into the cookie."""
        found = secrets.token_urlsafe(32)
        with self._lock:
            self._tidy()
            self._open[digest(found)] = Session(name, token, self._clock() + LASTING_S)
            self._write()
        return found

    def of(self, found: str) -> Session | None:
        """Return the session with this id; None if it does not exist or has expired."""
        session = self._open.get(digest(found))
        return None if session is None or session.until_s <= self._clock() else session

    def close(self, found: str) -> None:
        with self._lock:
            if self._open.pop(digest(found), None) is not None:
                self._write()

    def _tidy(self) -> None:
        now = self._clock()
        self._open = {name: session for name, session in self._open.items() if session.until_s > now}
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]

    def _write(self) -> None:
        if self._file is None:
            return
        kind = form(dict[str, Session])
        with contextlib.suppress(FileError):  # then users must log in again after a restart
            write_private(self._file, kind.text(kind.plain(self._open)).encode())


def sessions_of(journal: Path) -> Sessions:
    return Sessions(file=hidden_sibling(journal, "sessions"))


def _read(file: Path) -> dict[str, Session]:
    """Read the sessions of an earlier server; none if the file is missing or damaged: users log in again."""
    keep_from_others(file)
    try:
        found: dict[str, Session] = dict(form(dict[str, Session]).read(json.loads(file.read_bytes())))
    except (OSError, ValueError, FormMismatch, RecursionError):
        return {}
    return found


BODY_BYTES = 2 * 1024 * 1024  # limit for every request but an upload; a job file is limited to half of it
BODY_S = 60.0  # how long a client may pause in the middle of a body
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
UPLOAD = "/api/v1/uploads/"
LOGIN = "/api/v1/session"
LOGIN_PAGE = "/login"
OPEN = ("/healthz", "/api/v1/openapi.json", LOGIN, LOGIN_PAGE)
"""Addresses that need no token; none of them shows anything about jobs."""
OPEN_FOLDER = "/static/"
"""Scripts and styles of the pages: public, because they hold no data and the login page needs them."""
ONCE = (b"authorization", b"content-length", b"host", b"idempotency-key", b"origin", b"sec-fetch-site")
"""Headers that must not be repeated: a proxy in front of us might use the one that we ignore."""
_BAD_PATH = re.compile(rb"%2e|%2f|%5c|%00|\.\.|\\|//", re.IGNORECASE)
"""None of our addresses contains these; attackers use them to get around checks of the path."""
POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
FOR_A_YEAR = "max-age=31536000"


class Who(NamedTuple):
    """The sender of a request."""

    name: str = ""  # of the token; empty without one
    role: Role | None = None
    session: str = ""  # the id of the session, if the request has a cookie
    token: str = ""  # the digest of the token, if the request has one

    def may(self, role: Role | None) -> bool:
        """Whether the sender may do what needs this role; `submit` includes `read`, None needs no token."""
        return role is None or self.role in (role, "submit")


@dataclass(slots=True, kw_only=True)
class Doorkeeper:
    """Decides who may send a request, by tokens, sessions, the server's host names and rate limits."""

    tokens: Tokens
    hosts: tuple[str, ...]
    secure: bool = False  # whether browsers use TLS, the server's own or a proxy's
    sessions: Sessions = field(default_factory=Sessions)
    requests: Rate = field(default_factory=lambda: Rate(200.0, 400.0))
    """By token, or by address for requests without one."""
    failures: Rate = field(default_factory=lambda: Rate(0.2, 10.0))  # wrong tokens, by address

    def caller(self, scope: Scope, headers: Mapping[str, str]) -> Who:
        """Return the sender of a request; raises HTTPException if the request is refused."""
        if _host(headers.get("host", "")) not in self.hosts:
            raise HTTPException(421, "the Host of a request must be a name of this server, got another")
        if _BAD_PATH.search(scope.get("raw_path") or scope["path"].encode()):
            raise HTTPException(404, "nothing was found at this address")
        address = (scope.get("client") or ("?", 0))[0]
        who = self._identified(headers, address)
        if not self.requests.take(who.name or address):
            raise HTTPException(
                429, "requests must stay within the limit for each caller, got more; wait a moment"
            )
        by_browser = scope["method"] not in SAFE_METHODS and not headers.get("authorization")
        if by_browser and not is_from_here(headers, needed=bool(who.session)):
            raise HTTPException(
                403, "a request with a cookie must come from this server's pages, got another origin"
            )
        is_open = scope["path"] in OPEN or scope["path"].startswith(OPEN_FOLDER)
        if who.role is None and not is_open:
            raise HTTPException(
                401, "a request must have a token: Authorization: Bearer NAME:SECRET, got none"
            )
        return who

    def _identified(self, headers: Mapping[str, str], address: str) -> Who:
        given, cookie = headers.get("authorization", ""), cookie_of(headers)
        if not given:
            return self._in_session(cookie) if cookie else Who()
        if self.failures.is_spent(address):
            raise HTTPException(429, "tokens must be valid, got too many that were not; try again later")
        kind, _, text = given.partition(" ")
        token = self.tokens.check(text.strip()) if kind.lower() == "bearer" else None
        if token is None:
            self.failures.take(address)
            raise HTTPException(
                401, "the token must be valid on this server, got one that is unknown or expired"
            )
        return Who(token.name, token.role, token=token.sha256)

    def still_knows(self, who: Who) -> bool:
        """Whether a caller would still be admitted: its token was not revoked, its session is still open."""
        try:
            if who.session:
                return self._in_session(who.session).name == who.name
            token = self.tokens.named(who.name)
        except SlacktideError:  # the file of tokens cannot be read
            return False
        return token is not None and token.sha256 == who.token

    def _in_session(self, cookie: str) -> Who:
        session = self.sessions.of(cookie)
        token = None if session is None else self.tokens.named(session.name)
        if session is None or token is None or token.sha256 != session.token:
            return Who()
        return Who(token.name, token.role, cookie)


def check_headers(scope: Scope) -> None:
    """Raise HTTPException for headers that a proxy in front of us may have understood differently."""
    names = [name for name, _ in scope["headers"]]
    for name in ONCE:
        if names.count(name) > 1:
            raise HTTPException(
                400, f"a request must have one header {name.decode()}, got {names.count(name)}"
            )
    if b"content-length" in names and b"transfer-encoding" in names:
        raise HTTPException(400, "a request must say the length of its body or send it in pieces, got both")


def is_from_here(headers: Mapping[str, str], *, needed: bool) -> bool:
    """Whether a request comes from our own pages; unless `needed`, also if its headers do not say."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site not in (None, "same-origin"):
        return False
    if origin is not None:
        return hmac.compare_digest(origin.partition("//")[2].encode(), headers.get("host", "").encode())
    return site == "same-origin" or not needed


def cookie_of(headers: Mapping[str, str]) -> str:
    """Return the session id in the cookie; empty without one."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name.removeprefix("__Host-") == COOKIE:
            return value
    return ""


def _host(written: str) -> str:
    name = written.lower()
    return name.rpartition(":")[0] if re.search(r":[0-9]*\Z", name) else name


def error_body(kind: str, message: str, exit_code: int) -> dict[str, Any]:
    """Return an error under its documented keys."""
    return {"error": {"kind": kind, "message": message, "exit_code": exit_code}}


class Gate:
    """Checks access to the whole application, its static files included."""

    def __init__(self, app: ASGIApp, keeper: Doorkeeper, count: Callable[[str, int], None]) -> None:
        """Protect an application; `count` is called with the method and the status of each answer."""
        self._app, self._keeper, self._count = app, keeper, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        sealed = self._sealed(scope, send)
        most = MOST_BYTES + BODY_BYTES if scope["path"].startswith(UPLOAD) else BODY_BYTES
        try:
            check_headers(scope)
            scope.setdefault("state", {})["who"] = self._keeper.caller(scope, headers)
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > most:
                raise HTTPException(413, f"a body must have at most {most} bytes, got more")
        except HTTPException as error:
            is_page = error.status_code == 401 and _is_for_a_page(scope, headers)
            answer = _to_login(scope) if is_page else refused(error.status_code, error.detail)
            await answer(scope, receive, sealed)
        except SlacktideError:  # the file of tokens cannot be read
            message = "the tokens of the server must be readable, got a damaged file; notify its operator"
            await refused(500, message)(scope, receive, sealed)
        else:
            await self._app(scope, _limited(receive, most), sealed)

    def _sealed(self, scope: Scope, send: Send) -> Send:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._count(scope["method"], message["status"])
                headers = MutableHeaders(raw=list(message.get("headers", [])))
                more = {**HEADERS, "cache-control": "no-store"}
                if self._keeper.secure:
                    more["strict-transport-security"] = FOR_A_YEAR
                for name, value in more.items():
                    headers.setdefault(name, value)
                message["headers"] = headers.raw
            await send(message)

        return sealed


def _is_for_a_page(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether a browser opens a page: its user needs the login page, not an error."""
    wants_page = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
    return wants_page and "authorization" not in headers and not scope["path"].startswith("/api/")


def _to_login(scope: Scope) -> Response:
    query = scope["query_string"].decode("latin-1")
    wanted = scope["path"] + (f"?{query}" if query else "")
    return RedirectResponse(f"{LOGIN_PAGE}?next={quote(wanted, safe='/')}", 303)


def _limited(receive: Receive, most: int) -> Receive:
    """Limit a body as it arrives, also one without Content-Length; raises HTTPException."""
    left, waiting = most, True

    async def limited() -> Message:
        nonlocal left, waiting
        # After the body the only message is that the client disconnected, at any later time.
        try:
            message = await (asyncio.wait_for(receive(), BODY_S) if waiting else receive())
        except TimeoutError:
            raise HTTPException(408, f"a body must arrive within {BODY_S:g} s, got a pause") from None
        waiting = bool(message.get("more_body"))
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, f"a body must have at most {most} bytes, got more")
        return message

    return limited


KINDS = {
    401: "UnauthorizedError", 403: "ForbiddenError", 404: "NotFoundError", 408: "TimeoutError",
    413: "TooLargeError", 421: "WrongHostError", 429: "TooMuchError",
}  # fmt: skip


def refused(status: int, message: str) -> Response:
    """Return the answer to a request that the gate or the router refuses."""
    headers = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1"}}.get(status, {})
    body = error_body(KINDS.get(status, "InputError"), message, 4 if status == 429 else 2)
    return JSONResponse(body, status, {**headers, "connection": "close"} if status in (400, 413) else headers)
