"""A server reached from elsewhere: TLS of its own with certificates that are checked, or a proxy's."""

from __future__ import annotations

import http.client
import ipaddress
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from slacktide.cli import run
from slacktide.client.http import Client
from slacktide.core.errors import BackendError

from .parts_of_servers import Server

NAME = "gpus.example.org"


def certificate(folder: Path, *names: str, days: int = 1) -> tuple[Path, Path]:
    """Write a certificate that vouches for itself, and its key; `days` < 0: it is over."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_spoken(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "chain.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return paths


def _spoken(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.fixture
def serving(journal: Path) -> Iterator[list[Server]]:
    """Servers that a test starts; they are ended after it."""
    started: list[Server] = []
    yield started
    for one in started:
        one.stop()


def secured(serving: list[Server], journal: Path, folder: Path, *names: str, days: int = 1) -> Server:
    """Start a server with a certificate for names."""
    chain, key = certificate(folder, *names, days=days)
    server = Server(
        journal, "--backend", "replay", "--host", "0.0.0.0", "--name", NAME,
        "--tls-cert", str(chain), "--tls-key", str(key),
    )  # fmt: skip
    serving.append(server)
    server.start()
    return server


def test_a_client_that_trusts_the_certificate_is_served_and_nobody_else(
    serving: list[Server], journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    server = secured(serving, journal, tmp_path, "127.0.0.1", NAME)
    port = urlsplit(server.url).port
    monkeypatch.setenv("SLACKTIDE_TOKEN", server.token)
    monkeypatch.setenv("SLACKTIDE_SERVER", f"https://127.0.0.1:{port}")
    monkeypatch.delenv("SLACKTIDE_JOURNAL")
    assert run(["jobs"]) == 4, "nobody vouches for the certificate"
    assert "must have a certificate" in capsys.readouterr().err
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "chain.pem"))
    assert run(["jobs"]) == 0
    monkeypatch.setenv("SLACKTIDE_SERVER", f"https://localhost:{port}")
    assert run(["jobs"]) == 4, "the certificate is for another name"
    said = capsys.readouterr().err
    assert "must have a certificate" in said
    assert "localhost" in said
    with pytest.raises((http.client.HTTPException, OSError)):
        _asked_without_tls(port or 0)


def _asked_without_tls(port: int) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as plain:
        plain.request("GET", "/healthz")
        plain.getresponse()


def test_a_certificate_that_is_over_is_refused(
    serving: list[Server], journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = secured(serving, journal, tmp_path, "127.0.0.1", days=-1)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "chain.pem"))
    client = Client(f"https://127.0.0.1:{urlsplit(server.url).port}", server.token)
    with pytest.raises(BackendError, match=r"must have a certificate.*expired") as refused:
        client.get("/api/v1/jobs")
    assert refused.value.exit_code == 4


class Proxy(BaseHTTPRequestHandler):
    """Hands requests on as a proxy does that ends TLS: it says for whom, and keeps the Host."""

    protocol_version = "HTTP/1.1"
    port = 0

    def do_GET(self) -> None:
        self._hand_on()

    def do_POST(self) -> None:
        self._hand_on()

    def do_DELETE(self) -> None:
        self._hand_on()

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        onward = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        kept = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        # The test says from where it asks, as it has only one address.
        sent = {**kept, "x-forwarded-for": self.headers["x-from"], "x-forwarded-proto": "https"}
        with closing(onward):
            onward.request(self.command, self.path, body, sent)
            answer = onward.getresponse()
            raw = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def asked(
    port: int, method: str, path: str, body: str = "", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Ask through the proxy."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, body, {"host": NAME, "x-from": "203.0.113.7", **named})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_behind_a_proxy_callers_are_told_apart_and_cookies_are_secure(
    serving: list[Server], journal: Path
) -> None:
    server = Server(journal, "--backend", "replay", "--behind-proxy", "--name", NAME)
    serving.append(server)
    server.start()
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("On", (Proxy,), {"port": urlsplit(server.url).port}))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    port = proxy.server_address[1]
    try:
        assert asked(port, "GET", "/api/v1/jobs", authorization=f"Bearer {server.token}")[0] == 200
        assert asked(port, "GET", "/healthz", host="other.example")[0] == 421
        login = f'{{"token": "{server.token}"}}'
        status, headers, _ = asked(port, "POST", "/api/v1/session", login, origin=f"https://{NAME}")
        assert status == 201
        cookie = headers["set-cookie"]
        assert cookie.startswith("__Host-")
        assert "Secure" in cookie
        assert "strict-transport-security" in headers
        session = cookie.partition(";")[0]
        assert asked(port, "GET", "/api/v1/jobs", cookie=session)[0] == 200
        out = asked(port, "DELETE", "/api/v1/session", cookie=session, origin="https://evil.example")
        assert out[0] == 403
        wrong = {"authorization": "Bearer tester:wrong"}
        guesses = [asked(port, "GET", "/api/v1/jobs", x_from="198.51.100.1", **wrong)[0] for _ in range(20)]
        assert guesses[0] == 401
        assert guesses[-1] == 429, "who guesses waits"
        assert asked(port, "GET", "/api/v1/jobs", **wrong)[0] == 401, "and nobody else behind the same proxy"
    finally:
        proxy.shutdown()
        proxy.server_close()


def test_without_a_proxy_nobody_may_say_for_whom_it_asks(serving: list[Server], journal: Path) -> None:
    server = Server(journal, "--backend", "replay")
    serving.append(server)
    server.start()
    wrong = {"authorization": "Bearer a:b"}
    statuses = [
        server.ask("GET", "/api/v1/jobs", x_forwarded_for=f"198.51.100.{number}", **wrong)[0]
        for number in range(20)
    ]
    assert statuses[-1] == 429, "one address guesses, whatever it says"
