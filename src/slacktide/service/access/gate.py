"""Access control: only requests for this host, with a valid token and of a bounded size reach the routes."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slacktide.app.tokens import Role, Tokens
from slacktide.backends.machines.launch_package import MOST_BYTES
from slacktide.core.errors import SlacktideError
from slacktide.service.access.limits import Rate
from slacktide.service.access.sessions import COOKIE, Sessions

BODY_BYTES = 2 * 1024 * 1024  # of any request but an upload: a job file has at most half of it
BODY_S = 60.0  # how long a client may pause in the middle of a body
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
UPLOAD = "/api/v1/uploads/"
LOGIN = "/api/v1/session"
LOGIN_PAGE = "/login"
OPEN = ("/healthz", "/api/v1/openapi.json", LOGIN, LOGIN_PAGE)
"""Addresses that need no token; none of them shows anything about jobs."""
OPEN_FOLDER = "/static/"
"""Scripts and styles of the pages, the login page's included: public, because they hold no data."""
ONCE = (b"authorization", b"content-length", b"host", b"idempotency-key", b"origin", b"sec-fetch-site")
"""Headers that must not come twice: a proxy in front of us might use the one that we ignore."""
_BAD_PATH = re.compile(rb"%2e|%2f|%5c|%00|\.\.|\\|//", re.IGNORECASE)
"""None of our addresses contains these; in others they serve to get around checks of the path."""
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
    session: str = ""  # the id of the session, for one who came with a cookie
    token: str = ""  # the digest of the token, for one who came with it

    def may(self, role: Role | None) -> bool:
        """Whether this one may do what needs a role: who may submit may also read."""
        return role is None or self.role in (role, "submit")


@dataclass(slots=True, kw_only=True)
class Doorkeeper:
    """What access is decided by: tokens and sessions, the server's own host names, and limits of rates."""

    tokens: Tokens
    hosts: tuple[str, ...]
    secure: bool = False  # whether browsers reach the server by TLS, its own or a proxy's
    sessions: Sessions = field(default_factory=Sessions)
    requests: Rate = field(default_factory=lambda: Rate(200.0, 400.0))
    """By token, or by address for who has none."""
    failures: Rate = field(default_factory=lambda: Rate(0.2, 10.0))  # wrong tokens, by address

    def refusal(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | Who:
        """Return the sender of a request, or the status and the reason of its refusal."""
        if _host(headers.get("host", "")) not in self.hosts:
            return 421, "the Host of a request must be a name of this server, got another"
        if _BAD_PATH.search(scope.get("raw_path") or scope["path"].encode()):
            return 404, "nothing was found at this address"
        return self._known(scope, headers)

    def _known(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | Who:
        address = (scope.get("client") or ("?", 0))[0]
        given, cookie = headers.get("authorization", ""), cookie_of(headers)
        who = Who()
        if given:
            if self.failures.is_spent(address):
                return 429, "tokens must be valid, got too many that were not; try again later"
            kind, _, text = given.partition(" ")
            token = self.tokens.check(text.strip()) if kind.lower() == "bearer" else None
            if token is None:
                self.failures.take(address)
                return 401, "the token must be valid on this server, got one that is unknown or expired"
            who = Who(token.name, token.role, token=token.sha256)
        elif cookie:
            who = self._in_session(cookie)
        return self._admitted(scope, headers, who, address)

    def still_knows(self, who: Who) -> bool:
        """Whether a caller would still be admitted: its token was not revoked, its session is still open."""
        try:
            if who.session:
                return self._in_session(who.session).name == who.name
            token = self.tokens.named(who.name)
        except SlacktideError:  # without its tokens a server knows no user
            return False
        return token is not None and token.sha256 == who.token

    def _in_session(self, cookie: str) -> Who:
        session = self.sessions.of(cookie)
        token = None if session is None else self.tokens.named(session.name)
        if session is None or token is None or token.sha256 != session.token:
            return Who()
        return Who(token.name, token.role, cookie)

    def _admitted(
        self, scope: Scope, headers: Mapping[str, str], who: Who, address: str
    ) -> tuple[int, str] | Who:
        if not self.requests.take(who.name or address):
            return 429, "requests must stay within the limit for each caller, got more; wait a moment"
        by_browser = scope["method"] not in SAFE_METHODS and not headers.get("authorization")
        if by_browser and not is_from_here(headers, needed=bool(who.session)):
            return 403, "a request with a cookie must come from this server's pages, got another origin"
        if who.role is None and not is_open(scope["path"]):
            return 401, "a request must have a token: Authorization: Bearer NAME:SECRET, got none"
        return who


def ambiguous(scope: Scope) -> tuple[int, str] | None:
    """Return why a request is refused that a proxy in front of us may have understood in another way."""
    names = [name for name, _ in scope["headers"]]
    for name in ONCE:
        if names.count(name) > 1:
            return 400, f"a request must have one header {name.decode()}, got {names.count(name)}"
    if b"content-length" in names and b"transfer-encoding" in names:
        return 400, "a request must say the length of its body or send it in pieces, got both"
    return None


def is_open(path: str) -> bool:
    """Whether an address needs no token."""
    return path in OPEN or path.startswith(OPEN_FOLDER)


def is_from_here(headers: Mapping[str, str], *, needed: bool) -> bool:
    """Whether a browser says that its request comes from our own pages; `needed`: it must say so."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site not in (None, "same-origin"):
        return False
    if origin is not None:
        return hmac.compare_digest(origin.partition("//")[2].encode(), headers.get("host", "").encode())
    return site == "same-origin" or not needed


def cookie_of(headers: Mapping[str, str]) -> str:
    """Return the session that a cookie names; empty where there is none."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name.removeprefix("__Host-") == COOKIE:
            return value
    return ""


def _host(written: str) -> str:
    """Return the name in a Host header, without its port."""
    name = written.lower()
    return name.rpartition(":")[0] if re.search(r":[0-9]*\Z", name) else name


def error_body(kind: str, message: str, exit_code: int) -> dict[str, Any]:
    """Return an error under its documented keys."""
    return {"error": {"kind": kind, "message": message, "exit_code": exit_code}}


class Gate:
    """Stands before the whole application, its static files included."""

    def __init__(
        self,
        app: ASGIApp,
        keeper: Doorkeeper,
        count: Callable[[str, int], None] = lambda method, status: None,
    ) -> None:
        """Protect an application; `count` is called with the method and the status of each answer."""
        self._app, self._keeper, self._count = app, keeper, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        sealed = self._sealed(scope, send)
        try:
            found = ambiguous(scope) or self._keeper.refusal(scope, headers)
        except SlacktideError:  # without its tokens a server knows no user
            found = 500, "the tokens of the server must be readable, got a damaged file; notify its operator"
        if not isinstance(found, Who):
            by_hand = found[0] == 401 and _is_for_a_page(scope, headers)
            answer = _to_login(scope) if by_hand else refused(*found)
            await answer(scope, receive, sealed)
            return
        scope.setdefault("state", {})["who"] = found
        await self._let_in(scope, receive, sealed, headers)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str]) -> None:
        most = MOST_BYTES + BODY_BYTES if scope["path"].startswith(UPLOAD) else BODY_BYTES
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            await refused(413, f"a body must have at most {most} bytes, got more")(scope, receive, send)
            return
        await self._app(scope, _limited(receive, most), send)

    def _sealed(self, scope: Scope, send: Send) -> Send:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._count(scope["method"], message["status"])
                have = {name.lower() for name, _ in message.get("headers", [])}
                more = {**HEADERS, "cache-control": "no-store"}
                if self._keeper.secure:
                    more["strict-transport-security"] = FOR_A_YEAR
                message["headers"] = [
                    *message.get("headers", []),
                    *(
                        (name.encode(), value.encode())
                        for name, value in more.items()
                        if name.encode() not in have
                    ),
                ]
            await send(message)

        return sealed


def _is_for_a_page(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether a browser opens an address: its user is helped by the login page, not by an error."""
    wants_page = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
    return wants_page and "authorization" not in headers and not scope["path"].startswith("/api/")


def _to_login(scope: Scope) -> Response:
    query = scope["query_string"].decode("latin-1")
    wanted = scope["path"] + (f"?{query}" if query else "")
    return RedirectResponse(f"{LOGIN_PAGE}?next={quote(wanted, safe='/')}", 303)


def _limited(receive: Receive, most: int) -> Receive:
    """Count a body as it comes, also one that does not say its length."""
    left, waiting = most, True

    async def limited() -> Message:
        nonlocal left, waiting
        # After the body the next message is that the client disconnected, which may take any time.
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
    """Answer with an error that is the gate's or the router's own."""
    headers = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1"}}.get(status, {})
    body = error_body(KINDS.get(status, "InputError"), message, 4 if status == 429 else 2)
    return JSONResponse(body, status, {**headers, "connection": "close"} if status in (400, 413) else headers)
