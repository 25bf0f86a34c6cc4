"""The gate: every way in that is to be closed is tried."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from uvicorn.server import ServerState

from slacktide.app.tokens import Token, tokens_of
from slacktide.core.errors import FileError, InputError, UnknownNameError
from slacktide.service import access, hub
from slacktide.service import listening as listening_module
from slacktide.service.access import (
    BODY_BYTES,
    LASTING_S,
    Rate,
    Sessions,
    Slots,
    TooMuchError,
    sessions_of,
)
from slacktide.service.hub import STREAM
from slacktide.service.listening import HEADER_BYTES, Address

from .parts_of_api import JOB, House, called, scope_of

JOBS, SESSION = "/api/v1/jobs", "/api/v1/session"


def test_nobody_is_let_in_without_a_token(house: House) -> None:
    paths = (JOBS, "/api/v1/events", "/metrics", "/api/v1/jobs/job/logs", "/api/v1/cost", "/", "/jobs/x")
    for path in paths:
        answer = house.ask("GET", path, token=None)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), path
    assert house.ask("GET", "/healthz", token=None).status == 200
    assert house.ask("GET", "/api/v1/openapi.json", token=None).status == 200


@pytest.mark.parametrize("given", ["ann:", "ann:wrong", "nobody:secret", ":", "", "ann"])
def test_a_wrong_token_is_refused(house: House, given: str) -> None:
    answer = house.send("GET", JOBS, {"host": "localhost", "authorization": f"Bearer {given}"}, [b""])
    assert answer.status == 401
    basic = house.send("GET", JOBS, {"host": "localhost", "authorization": f"Basic {house.reader}"}, [b""])
    assert basic.status == 401


def test_a_reader_may_look_and_not_act(house: House) -> None:
    assert house.ask("GET", JOBS, token=house.reader).status == 200
    writes = [("POST", JOBS), ("POST", f"{JOBS}/job/cancel"), ("POST", f"{JOBS}/job/preempt")]
    for method, path in [*writes, ("PUT", f"/api/v1/uploads/{'0' * 64}")]:
        assert house.ask(method, path, {}, token=house.reader).status == 403, path


def test_tokens_are_hashed_private_and_over_when_they_are_revoked(house: House) -> None:
    secret = house.reader.partition(":")[2]
    text = house.tokens.path.read_text(encoding="utf-8")
    assert secret not in text
    assert '"role": "read"' in text
    assert stat.S_IMODE(house.tokens.path.stat().st_mode) == 0o600
    tokens_of(house.path).revoke("bob")  # in another process, as it were
    assert house.ask("GET", JOBS, token=house.reader).status == 401
    assert house.ask("GET", JOBS).status == 200


def test_a_token_may_end_by_itself(house: House) -> None:
    short = house.tokens.add("short", "read", timedelta(seconds=-1))
    assert house.tokens.check(short) is None
    assert house.tokens.check(house.tokens.add("long", "read", timedelta(hours=1))) is not None


def test_tokens_have_names_and_roles_that_make_sense(house: House) -> None:
    with pytest.raises(InputError, match="of its own"):
        house.tokens.add("ann", "read")
    with pytest.raises(InputError, match="letters, digits"):
        house.tokens.add("a:b", "read")
    with pytest.raises(UnknownNameError):
        house.tokens.add("carl", "admin")
    with pytest.raises(UnknownNameError):
        house.tokens.revoke("carl")


def test_a_damaged_file_of_tokens_lets_nobody_in(house: House) -> None:
    house.tokens.path.write_text("{", encoding="utf-8")
    with pytest.raises(FileError, match="must be an intact file of tokens"):
        tokens_of(house.path).all()
    assert house.ask("GET", JOBS).status == 500


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "localhost.evil.example", "169.254.1.1"]
)
def test_a_foreign_host_is_misdirected(house: House, host: str) -> None:
    for path in (JOBS, "/healthz"):
        assert house.ask("GET", path, host=host).status == 421
    assert house.ask("GET", JOBS, host="LOCALHOST:8470").status == 200


def cookie_of(house: House, token: str | None = None) -> str:
    """Log in, and return the cookie."""
    answer = house.ask("POST", SESSION, {"token": token or house.submitter}, token=None)
    assert answer.status == 201
    assert answer.json["role"] in ("read", "submit")
    return answer.headers["set-cookie"]


def test_a_session_is_a_cookie_that_scripts_cannot_read_and_others_do_not_send(house: House) -> None:
    cookie = cookie_of(house)
    for part in ("HttpOnly", "SameSite=strict", "Path=/", f"Max-Age={int(LASTING_S)}"):
        assert part in cookie
    assert house.submitter.partition(":")[2] not in cookie
    value = cookie.partition(";")[0]
    assert house.ask("GET", JOBS, token=None, cookie=value).status == 200
    assert house.ask("GET", SESSION, token=None, cookie=value).json == {"name": "ann", "role": "submit"}
    out = house.ask("DELETE", SESSION, token=None, cookie=value, sec_fetch_site="same-origin")
    assert out.status == 204
    assert house.ask("GET", JOBS, token=None, cookie=value).status == 401


def test_by_tls_the_cookie_is_for_this_host_alone(tmp_path: Path) -> None:
    house = House(tmp_path, secure=True)
    cookie = cookie_of(house)
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie
    assert house.ask("GET", JOBS, token=None, cookie=cookie.partition(";")[0]).status == 200
    assert "strict-transport-security" in house.ask("GET", "/healthz").headers
    house.close()


def test_a_session_ends_with_its_token_and_with_time(house: House) -> None:
    value = cookie_of(house, house.reader).partition(";")[0]
    assert house.ask("GET", JOBS, token=None, cookie=value).status == 200
    house.tokens.revoke("bob")
    assert house.ask("GET", JOBS, token=None, cookie=value).status == 401
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    found = sessions.open("ann", "digest")
    assert sessions.of(found) == ("ann", "digest", LASTING_S)
    now[0] = LASTING_S
    assert sessions.of(found) is None


def test_another_token_of_the_same_name_does_not_take_a_session_over(house: House) -> None:
    value = cookie_of(house, house.reader).partition(";")[0]
    house.tokens.revoke("bob")
    house.tokens.add("bob", "submit")
    assert house.ask("GET", JOBS, token=None, cookie=value).status == 401


def test_a_session_outlives_its_server_and_its_file_tells_no_cookie(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    found = sessions_of(journal).open("ann", "digest")
    file = tmp_path / ".journal.db.sessions"
    assert file.stat().st_mode & 0o077 == 0
    assert found not in file.read_text(encoding="utf-8")
    again = sessions_of(journal)
    session = again.of(found)
    assert session is not None
    assert session.name == "ann"
    again.close(found)
    assert sessions_of(journal).of(found) is None
    file.write_text("damaged", encoding="utf-8")
    assert sessions_of(journal).of(found) is None, "who cannot be known logs in again"


def test_who_opens_a_page_without_a_session_is_led_to_the_login(house: House) -> None:
    opened = house.ask("GET", "/jobs/a?x=1", token=None, accept="text/html,*/*")
    assert opened.status == 303
    assert opened.headers["location"] == "/login?next=/jobs/a%3Fx%3D1"
    for path in ("/api/v1/jobs", "/metrics"):
        assert house.ask("GET", path, token=None, accept="application/json").status == 401
    assert house.ask("GET", JOBS, token=None, accept="text/html").status == 401, "a program asks the API"
    assert house.ask("GET", "/", token="ann:wrong", accept="text/html").status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"origin": "null"}, 403),
        ({}, 403),
        ({"origin": "http://localhost"}, 404),
        ({"sec_fetch_site": "same-origin"}, 404),
    ],
)
def test_a_post_with_a_cookie_must_come_from_our_own_pages(
    house: House, headers: dict[str, str], status: int
) -> None:
    value = cookie_of(house).partition(";")[0]
    answer = house.ask("POST", f"{JOBS}/none/cancel", {}, token=None, cookie=value, **headers)
    assert answer.status == status


def test_a_foreign_page_cannot_log_somebody_in(house: House) -> None:
    answer = house.ask("POST", SESSION, {"token": house.reader}, token=None, origin="https://evil.example")
    assert answer.status == 403


def test_every_answer_says_what_browsers_may_do_with_it(house: House) -> None:
    for path, token in ((JOBS, ""), (JOBS, None), ("/nowhere", ""), ("/healthz", None)):
        headers = house.ask("GET", path, token=token).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_a_body_has_a_limit_whether_it_says_its_length_or_not(house: House) -> None:
    big = {"host": "localhost", "authorization": f"Bearer {house.submitter}"}
    said = house.send("POST", JOBS, {**big, "content-length": str(BODY_BYTES + 1)}, [b""])
    assert said.status == 413
    assert house.send("POST", JOBS, {**big, "content-length": "-1"}, [b""]).status == 413
    piece = b"x" * (BODY_BYTES // 2 + 1)
    chunked = house.send("POST", JOBS, {**big, "transfer-encoding": "chunked"}, [piece, piece, piece])
    assert (chunked.status, chunked.json["error"]["kind"]) == (413, "TooLargeError")


@pytest.mark.parametrize("name", ["authorization", "host", "idempotency-key", "content-length", "origin"])
def test_a_header_that_a_proxy_may_read_otherwise_stands_once(house: House, name: str) -> None:
    known = {"host": "localhost", "authorization": f"Bearer {house.submitter}", "content-length": "0"}
    twice = {**known, name: known.get(name, "x"), name.title(): known.get(name, "y")}
    answer = house.send("GET", JOBS, twice, [b""])
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert answer.message == f"a request must have one header {name}, got 2"
    both = house.send("GET", JOBS, {**known, "transfer-encoding": "chunked"}, [b""])
    assert (both.status, both.headers["connection"]) == (400, "close")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../secret",
        "/static/%2e%2e/secret",
        "/..",
        "/api/v1/jobs/%2e%2e/logs",
        "/a%2fb",
        "/a%00b",
        "/api//v1/jobs",
        "/a\\b",
    ],
)
def test_ways_out_lead_nowhere(house: House, path: str) -> None:
    assert house.ask("GET", path).status == 404


def test_who_asks_too_often_waits(tmp_path: Path) -> None:
    house = House(tmp_path, requests=Rate(0.001, 3.0))
    answers = [house.ask("GET", JOBS) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].headers["retry-after"] == "1"
    assert house.ask("GET", JOBS, token=house.reader).status == 200, "others have their own share"
    house.close()


def test_who_guesses_tokens_waits(house: House) -> None:
    statuses = [house.ask("GET", JOBS, token="ann:guess").status for _ in range(12)]
    assert set(statuses[:10]) == {401}
    assert statuses[10:] == [429, 429]
    assert house.ask("POST", SESSION, {"token": "ann:guess"}, token=None).status == 429


def test_a_share_fills_again() -> None:
    now = [0.0]
    rate = Rate(2.0, 2.0, lambda: now[0])
    assert [rate.take("a") for _ in range(3)] == [True, True, False]
    now[0] = 0.5
    assert [rate.take("a"), rate.take("a")] == [True, False]


def test_listeners_have_a_limit_each_and_in_all() -> None:
    slots = Slots(3, 2, "listeners")
    with slots.one("a"), slots.one("a"):
        with pytest.raises(TooMuchError, match="at most 2"), slots.one("a"):
            pass
        with slots.one("b"), pytest.raises(TooMuchError), slots.one("c"):
            pass
    assert slots.held == 0


def test_a_listener_too_many_is_refused(house: House) -> None:
    house.service.listeners = Slots(0, 0, "listeners")
    answer = house.ask("GET", "/api/v1/events", accept="text/event-stream")
    assert (answer.status, answer.json["error"]["kind"]) == (429, "TooMuchError")


def test_no_error_shows_a_path_of_the_server(house: House, tmp_path: Path) -> None:
    broken = JOB.replace("deadline: 12h", "deadline: soon")
    answers = [
        house.ask("POST", JOBS, {"text": broken, "name": "mine.yaml"}),
        house.ask("POST", JOBS, {"text": JOB.replace("market: synthetic:h100", "market: traces/")}),
        house.ask("POST", "/api/v1/plan", {"text": broken}),
        house.ask("GET", f"{JOBS}/none"),
    ]
    for answer in answers:
        assert 400 <= answer.status < 500
        assert str(tmp_path) not in answer.message
        assert "/tmp" not in answer.message
    assert answers[0].message.startswith("mine.yaml:5:")
    said = house.service.reader.paths.out_of(f"{tmp_path}/journal.runs/.uploads/{'a' * 24}/job.yaml:3: no")
    assert said == "job.yaml:3: no"
    assert str(tmp_path) not in house.service.reader.paths.out_of(f"{tmp_path}/journal.db: must be whole")


def test_events_name_files_without_folders_of_the_server(house: House, tmp_path: Path) -> None:
    house.run_a_job()
    for path in (
        "/api/v1/events",
        f"{JOBS}/job/events",
        f"{JOBS}/job/course",
        f"{JOBS}/job/why",
        f"{JOBS}/job/report",
    ):
        answer = house.ask("GET", path, token=house.reader)
        assert answer.status == 200
        assert str(tmp_path) not in answer.body.decode()
    told = [
        one["path"] for one in house.ask("GET", "/api/v1/events").json["events"] if one["kind"] == "Submitted"
    ]
    assert told == ["job.yaml"]
    exact = house.ask("GET", "/api/v1/events?form=journal").body.decode()
    assert str(tmp_path) in exact, "clients tell a journal as they would where it lies"


def test_what_nobody_foresaw_is_told_without_details(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("/secret/place")

    monkeypatch.setattr(house.journal_reader, "job", fail)
    sent: list[int] = []
    with pytest.raises(RuntimeError):  # for the log of whoever runs the server
        sent.append(house.ask("GET", f"{JOBS}/job").status)


def test_off_the_loopback_tls_is_needed(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "10.1.2.3", "::", "example.org"):
        with pytest.raises(InputError, match="must have TLS"):
            Address(host=host).check()
    Address().check()
    Address(host="::1").check()
    with pytest.raises(InputError, match="must know its name"):
        Address(host="10.1.2.3", behind_proxy=True).check()
    Address(host="10.1.2.3", behind_proxy=True, names=("a.example",)).check()
    with pytest.raises(InputError, match="given together"):
        Address(certificate=tmp_path / "cert.pem").check()
    with pytest.raises(InputError, match="must be there"):
        Address(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem").check()


def test_other_protocols_are_not_spoken(house: House) -> None:
    async def nothing(*_: object) -> dict[str, object]:
        return {}

    asyncio.run(house.app({"type": "websocket", "path": "/", "headers": []}, nothing, nothing))  # type: ignore[arg-type]
    assert called is not None


def test_an_address_says_every_method_that_it_knows(house: House) -> None:
    known = {
        "/api/v1/jobs": "GET, HEAD, POST",
        "/api/v1/session": "DELETE, GET, HEAD, POST",
        f"/api/v1/uploads/{'0' * 64}": "GET, HEAD, PUT",
        "/api/v1/jobs/a/cancel": "POST",
    }
    for path, methods in known.items():
        answer = house.ask("OPTIONS", path)
        assert (answer.status, answer.headers["allow"]) == (405, methods)


async def asked_of(app: Any, scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Ask an application, as ASGI does it."""
    await app(scope, receive, send)


async def heard_until(house: House, headers: dict[str, str], end: Callable[[], object]) -> list[str]:
    """Listen with these headers, do what is to end that once it began, and return what was heard."""
    heard, begun, asked = list[str](), asyncio.Event(), [b""]

    async def receive() -> dict[str, Any]:
        if asked:
            return {"type": "http.request", "body": asked.pop(), "more_body": False}
        await asyncio.Event().wait()  # a listener that never leaves by itself
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        heard.append(message.get("body", b"").decode())
        if "retry" in heard[-1]:
            begun.set()

    house.service.hub.publish([], house.service.hub.seq)  # its listeners are on this loop from now on
    scope = scope_of("GET", "/api/v1/events", {"host": "localhost", "accept": STREAM, **headers})
    listening = asyncio.ensure_future(asked_of(house.app, scope, receive, send))
    await begun.wait()
    end()
    await listening
    return heard


def test_a_stream_ends_soon_after_its_token_was_revoked(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "KNOWN_S", 0.01)
    bearer = {"authorization": f"Bearer {house.reader}"}
    asyncio.run(heard_until(house, bearer, lambda: tokens_of(house.path).revoke("bob")))
    assert house.service.listeners.held == 0
    again = {"authorization": f"Bearer {house.tokens.add('bob', 'read')}"}

    def replace() -> None:  # another token of the same name is another one
        tokens_of(house.path).revoke("bob")
        tokens_of(house.path).add("bob", "read")

    asyncio.run(heard_until(house, again, replace))


def test_a_stream_ends_soon_after_its_token_is_over(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "KNOWN_S", 0.01)
    short = {"authorization": f"Bearer {house.tokens.add('short', 'read', timedelta(hours=1))}"}
    pass_time = monkeypatch.setattr
    asyncio.run(heard_until(house, short, lambda: pass_time(Token, "is_over", lambda one: True)))


def test_a_stream_ends_soon_after_its_session_was_closed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "KNOWN_S", 0.01)
    cookie = cookie_of(house).partition(";")[0]
    close = house.keeper.sessions.close
    asyncio.run(heard_until(house, {"cookie": cookie}, lambda: close(cookie.partition("=")[2])))
    cookie = cookie_of(house, house.reader).partition(";")[0]
    asyncio.run(heard_until(house, {"cookie": cookie}, lambda: tokens_of(house.path).revoke("bob")))
    cookie = cookie_of(house).partition(";")[0]
    damage = house.tokens.path.write_text
    asyncio.run(heard_until(house, {"cookie": cookie}, lambda: damage("{", encoding="utf-8")))


def test_a_body_that_does_not_come_is_not_waited_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "BODY_S", 0.01)
    heard = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        heard.append(message)

    headers = {"host": "localhost", "authorization": f"Bearer {house.submitter}"}
    asyncio.run(asked_of(house.app, scope_of("POST", JOBS, headers), receive, send))
    assert heard[0]["status"] == 408


def test_who_guesses_tokens_at_the_login_waits(house: House) -> None:
    answers = [house.ask("POST", SESSION, {"token": "ann:wrong"}, token=None).status for _ in range(12)]
    assert answers[0] == 401
    assert answers[-1] == 429
    assert house.ask("POST", SESSION, {"token": house.submitter}, token=None).status == 429


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    """Stand behind a server that lets nothing through."""
    raise AssertionError


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, int]]:
    """Speak HTTP on the loopback as the server does, with all its limits; yield where."""
    config = listening_module.config_of(Address(), nobody)
    config.load()
    state = ServerState()
    made = await asyncio.get_running_loop().create_server(
        lambda: listening_module.Protocol(config, state, {}), "127.0.0.1", 0
    )
    async with made:
        yield made.sockets[0].getsockname()


async def said_to(address: tuple[str, int], words: bytes) -> bytes:
    """Say something on a connection, and return what comes back until it is closed."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(words)
    found = b""
    with suppress(ConnectionResetError):  # who closes while more comes takes its own last words back
        while piece := await reader.read(1024):
            found += piece
    writer.close()
    return found


def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "HEADERS_S", 0.01)

    async def silent() -> bytes:
        async with listening() as address:
            return await said_to(address, b"GET / HTTP/1.1\r\nHost: loc")

    assert asyncio.run(silent()) == b""


def test_a_connection_too_many_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "CONNECTIONS", 3)
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    async def crowded() -> bytes:
        async with listening() as address:
            others = [await asyncio.open_connection(*address) for _ in range(2)]
            found = await said_to(address, request)
            for _, writer in others:
                writer.close()
        return found

    assert asyncio.run(crowded()).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2 * HEADER_BYTES,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * (HEADER_BYTES // 4),
        b"GET /" + b"a" * 2 * HEADER_BYTES,
    ],
    ids=["one long header", "many headers", "a long address"],
)
def test_headers_have_a_limit(words: bytes) -> None:
    async def wordy() -> bytes:
        async with listening() as address:
            return await said_to(address, words)

    found = asyncio.run(wordy())
    assert not found or found.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
