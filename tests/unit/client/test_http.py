"""A server that answers oddly: every command says so and ends with exit code 4, whatever came."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slacktide.cli import run
from slacktide.client import http as asking
from slacktide.client.http import Client, ServerError
from slacktide.core.errors import BackendError, InputError

JSON, STREAM = "application/json", "text/event-stream"
JOB = """\
name: job
run: "true"
resources: {accelerators: "H100:1"}
work: 1 gpu-hours
deadline: 12h
policy: on-demand
market: synthetic:h100?days=3
"""
ODD = {
    "no JSON": (200, JSON, b"{{{{"),
    "a page": (200, "text/html", b"<html>hello</html>"),
    "nothing": (200, JSON, b""),
    "a list": (200, JSON, b"[1, 2]"),
    "null": (200, JSON, b"null"),
    "without keys": (200, JSON, b"{}"),
    "of other forms": (
        200,
        JSON,
        b'{"jobs": [{"zzz": 1}], "events": [{"seq": "x", "event": 1}], "next": null, "why": 5, "made": [], '
        b'"lines": [{}], "machines": 3, "hooks": [[]], "in_charge": 1, "waiting": [], "unfinished": {}}',
    ),
    "deep": (200, JSON, b"[" * 100_000),
    "no UTF-8": (200, JSON, b"\xff\xfe"),
    "a redirect": (302, JSON, b""),
    "an error without words": (500, "text/plain", b"oops"),
    "an error that says it is none": (400, JSON, b'{"error": {"message": "no", "exit_code": 0}}'),
    "an error of odd form": (500, JSON, b'{"error": {"message": "no", "exit_code": "x"}}'),
    "a stream of no JSON": (200, STREAM, b"event: progress\ndata: {{\n\n"),
    "a stream without keys": (200, STREAM, b"event: progress\ndata: {}\n\n"),
    "a stream of no UTF-8": (200, STREAM, b"data: \xff\xfe\n\n"),
    "a stream with an odd error": (200, STREAM, b'event: error\ndata: {"status": "x"}\n\n'),
    "a stream with an odd answer": (200, STREAM, b"event: answer\ndata: [1]\n\n"),
}
COMMANDS = (
    "jobs", "plan JOB", "backtest JOB --starts 2", "learn", "learn JOB", "events", "events -f", "why x",
    "logs x", "logs -f x", "cost", "cost x", "machines", "alerts show", "cancel x", "submit JOB", "run JOB",
)  # fmt: skip


class Odd(BaseHTTPRequestHandler):
    """Answers everything in the same way, and keeps whom it was asked by."""

    answer: tuple[int, str, bytes]
    asked: list[str]

    def _say(self) -> None:
        self.asked.append(self.headers.get("authorization", ""))
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status, kind, body = self.answer
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("location", f"http://{self.headers['host']}/elsewhere")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _say  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[type[Odd], str]]:
    """A server whose answer the test chooses, and its address; clients lose patience at once."""
    for name in ("RETRY_S", "PAUSE_S"):
        monkeypatch.setattr(asking, name, 0.0)
    monkeypatch.setenv("SLACKTIDE_TOKEN", "ann:secret")
    made = type("Made", (Odd,), {"asked": []})
    listening = ThreadingHTTPServer(("127.0.0.1", 0), made)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made, f"http://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_said_and_is_exit_code_4(
    odd: str, server: tuple[type[Odd], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler, url = server
    handler.answer = ODD[odd]
    job = tmp_path / "job.yaml"
    job.write_text(JOB, encoding="utf-8")
    for command in COMMANDS:
        words = [str(job) if word == "JOB" else word for word in command.split()]
        assert run([*words, "--server", url]) == 4, (command, capsys.readouterr())
        assert "error: " in capsys.readouterr().err


def test_a_redirect_is_not_followed(server: tuple[type[Odd], str]) -> None:
    handler, url = server
    handler.answer = ODD["a redirect"]
    with pytest.raises(ServerError, match="redirect"):
        Client(url).get("/api/v1/jobs")
    with pytest.raises(ServerError, match="redirect"):
        Client(url).file("/api/v1/jobs/x/report")
    assert handler.asked == ["Bearer ann:secret"] * 2


def test_an_answer_and_a_line_of_a_stream_have_a_size(
    server: tuple[type[Odd], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, url = server
    monkeypatch.setattr(asking, "MOST_BYTES", 100)
    handler.answer = 200, JSON, b'{"a": "' + b"x" * 200 + b'"}'
    with pytest.raises(ServerError, match="more than 0 MB"):
        Client(url).get("/api/v1/jobs")
    handler.answer = 200, STREAM, b"data: " + b"x" * 200
    with pytest.raises(ServerError, match="more than 0 MB"):
        Client(url).request("GET", "/api/v1/cost")


def test_an_answer_that_comes_drop_by_drop_has_a_time(
    server: tuple[type[Odd], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, url = server
    handler.answer = 200, JSON, b"{}"
    monkeypatch.setattr(asking, "FILE_S", -1.0)
    with pytest.raises(ServerError, match="not whole"):
        Client(url).get("/api/v1/jobs")


def test_a_part_of_an_answer_is_no_answer(
    server: tuple[type[Odd], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, url = server
    handler.answer = 200, JSON, b'{"jobs": []}'
    whole = http.client.HTTPResponse.read1
    monkeypatch.setattr(http.client.HTTPResponse, "read1", lambda self, n: whole(self, n)[:0])
    with pytest.raises(BackendError, match="must be reachable"):
        Client(url).get("/api/v1/jobs")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "http://",
        "http://[::1",
        "http://h:99999",
        "http://h:x",
        "http://h/a b",
        "http://ü.org/ü",
        "http://u:p@h",
    ],
)
def test_an_address_must_be_one(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["jobs", "--server", url]) == 2
    assert "http://HOST:PORT" in capsys.readouterr().err


def test_a_token_that_cannot_be_sent_is_not_shown() -> None:
    assert Client("http://h", "ann:secret\n")._token == "ann:secret"
    for token in ("ann:se\ncret", "ann:secret\x00", "ann:secrét"):
        with pytest.raises(InputError, match="printable ASCII") as met:
            Client("http://h", token)
        assert "secr" not in str(met.value)


def test_a_key_that_cannot_be_sent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_TOKEN", "ann:secret")
    job = tmp_path / "job.yaml"
    job.write_text(JOB.replace("market: synthetic:h100?days=3\n", ""), encoding="utf-8")
    assert run(["submit", str(job), "--key", "€", "--server", "http://127.0.0.1:1"]) == 2
