"""A client waits for a server that is away, whoever says so: the network, or a proxy in front of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from slacktide.client import http
from slacktide.client.http import AwayError, Client, ServerError, UntrustedError

Answer = tuple[int, str, bytes]
PAGE = (502, "text/html", b"<html>502 Bad Gateway</html>")
"""What nginx says while nobody listens behind it."""
WELL = (200, "application/json", b'{"jobs": []}')
STREAM = (200, "text/event-stream", b"id: 7\ndata: {}\n\n")
OVER = (200, "text/event-stream", b"event: over\ndata: {}\n\n")


class Proxy(ThreadingHTTPServer):
    """Gives the answers that it was told, one after another."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("last-event-id")))
        status, kind, body = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *said: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(http, "PAUSE_S", 0.0)
    with Proxy() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def client(proxy: Proxy) -> Client:
    return Client(f"http://127.0.0.1:{proxy.server_port}", "ann:secret")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_its_server_is_asked_again(proxy: Proxy, status: int) -> None:
    proxy.answers = [(status, *PAGE[1:]), PAGE, WELL]
    assert client(proxy).get("/api/v1/jobs") == {"jobs": []}
    assert not proxy.answers


def test_a_stream_goes_on_after_its_last_event_when_the_server_is_back(proxy: Proxy) -> None:
    proxy.answers = [STREAM, PAGE, WELL, PAGE, WELL, OVER]
    frames = list(client(proxy).stream("/api/v1/events", 0))
    assert [frame.id for frame in frames] == ["7", ""]
    assert [last for path, last in proxy.asked if path == "/api/v1/events"] == ["0", "7", "7"]


def test_what_must_not_be_asked_twice_is_told_as_away(proxy: Proxy) -> None:
    proxy.answers = [PAGE]
    with pytest.raises(AwayError, match="must be reachable for the proxy in front of it, got status 502"):
        client(proxy).post("/api/v1/jobs/j/cancel", {})
    assert len(proxy.asked) == 1


def test_an_error_of_the_server_itself_is_told_at_once(proxy: Proxy) -> None:
    told = b'{"error": {"kind": "PlanError", "message": "a plan must end", "exit_code": 4}}'
    proxy.answers = [(502, "application/json", told)]
    with pytest.raises(ServerError, match="a plan must end"):
        client(proxy).get("/api/v1/jobs")
    assert len(proxy.asked) == 1


def test_it_is_said_that_a_server_is_waited_for(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PATIENCE_S", -1.0)
    told: list[str] = []
    proxy.answers = [PAGE, PAGE, WELL]
    url = f"http://127.0.0.1:{proxy.server_port}"
    assert Client(url, "ann:secret", told.append).get("/api/v1/jobs") == {"jobs": []}
    assert told == [f"{url} does not answer; trying for 60 s, Ctrl-C stops"]


def test_a_server_without_tls_is_not_waited_for(proxy: Proxy) -> None:
    with pytest.raises(UntrustedError, match=r"must speak TLS, got: .*; if it does not, use http://"):
        Client(f"https://127.0.0.1:{proxy.server_port}", "ann:secret").get("/api/v1/jobs")
