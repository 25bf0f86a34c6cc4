"""What receivers get, how it is signed, and what their answers mean; real sockets and real processes."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from slacktide.app.alerts import sending
from slacktide.app.alerts.address import parse_target
from slacktide.app.alerts.sending import meant, post, send

from .parts_of_alerts import SECRET, alert, receiver
from .parts_of_alerts import webhook as hook_at


def test_the_body_has_stable_keys() -> None:
    assert json.loads(sending.payload(alert(), "slacktide", "https://gpus.example.org/")) == {
        "version": 1, "id": "1-done-x", "kind": "done", "text": "train <&> is over", "job": "train",
        "owner": "ann", "time_utc": "2026-01-01T00:00:00Z", "journal": "j", "seq": 1,
        "url": "https://gpus.example.org/jobs/train", "details": {"cost_usd": 1.5},
    }  # fmt: skip
    assert json.loads(sending.payload(alert(job=""), "slacktide"))["job"] is None


def test_slack_gets_a_text_without_markup_of_its_own() -> None:
    told = json.loads(sending.payload(alert(job="<!here>"), "slack", "https://x.org"))
    assert told == {
        "text": "*Done*: &lt;!here&gt; &lt;&amp;&gt; is over (<https://x.org/jobs/%3C%21here%3E|open>)"
    }


def test_a_signature_is_the_documented_one() -> None:
    # printf '1700000000.{"id":"1"}' | openssl dgst -sha256 -hmac 0123456789abcdef
    digest = "d5f5834972cbc6cf5590800c46ccaa0cd6c16f19c0c73dbdf9b4c56390cbc2a3"
    assert sending.signature(SECRET, b'{"id":"1"}', 1700000000) == f"t=1700000000,v1={digest}"


def test_a_receiver_gets_it_signed_and_named() -> None:
    with receiver() as server:
        assert send(hook_at(server.url), alert(), "").said == "HTTP 200 OK"
    (came,) = server.came
    assert came.path == "/hush/path?token=hush"
    stamp, digest = (part.split("=")[1] for part in came.headers["Slacktide-Signature"].split(","))
    assert abs(int(stamp) - time.time()) < 3600
    assert hmac.new(SECRET, f"{stamp}.".encode() + came.body, hashlib.sha256).hexdigest() == digest
    assert came.headers["Slacktide-Alert"] == json.loads(came.body)["id"] == "1-done-x"


def test_redirects_are_not_followed() -> None:
    with receiver((302, {"Location": "/elsewhere"})) as server:
        answer = send(hook_at(server.url), alert(), "")
    assert (answer.accepted, answer.final, len(server.came)) == (False, False, 1)
    assert answer.said == "HTTP 302 Found, a redirect, which is not followed"


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiver() as server:
        assert send(hook_at(server.url), alert(), "").accepted


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_what_is_wrong_with_the_alert_is_final(status: int) -> None:
    assert meant(status, None).final


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 410, 425, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert not meant(status, None).final


def test_a_receiver_says_when_to_come_again() -> None:
    assert meant(429, "120").wait_s == 120.0
    assert meant(503, "99999999").wait_s == 3600.0
    assert meant(503, "soon").wait_s == 0.0


def test_an_answer_that_drips_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "ANSWER_S", 0.3)
    enough = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            peer, _ = server.accept()
            with peer:
                while not enough.is_set():
                    try:
                        peer.sendall(b"H")
                    except OSError:
                        return
                    time.sleep(0.02)

        thread = threading.Thread(target=drip)
        thread.start()
        target = parse_target(f"http://127.0.0.1:{server.getsockname()[1]}/")
        answer = post(target, "1", b"{}", b"", private=True)
        enough.set()
        thread.join()
    assert answer.said == "no answer within 0.3 s"


def test_no_answer_at_all_is_no_https() -> None:
    with receiver() as server:
        target = parse_target(server.url.replace("http://", "https://"))
        answer = post(target, "1", b"{}", b"", private=True)
    assert not answer.accepted
    assert "hush" not in answer.said


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certificate for receiver.example and its key in one file, which this process trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    path = tmp_path / "pair.pem"
    asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=receiver.example"
    names = ["-addext", "subjectAltName=DNS:receiver.example", "-keyout", str(path), "-out", f"{path}.cert"]
    subprocess.run(["openssl", *asked.split(), *names], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.cert").read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", f"{path}.cert")
    return path


def test_a_certificate_must_be_for_the_name_whatever_the_address(certified: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certified)
    with receiver() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        port = server.server_address[1]

        def here(*asked: Any, **options: Any) -> list[tuple[Any, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        said = [
            post(parse_target(f"https://{name}:{port}/"), "1", b"{}", b"", private=True, resolver=here).said
            for name in ("receiver.example", "other.example", "127.0.0.1")
        ]
    assert said[0] == "HTTP 200 OK"
    for one in said[1:]:
        assert one.startswith("its certificate is not valid: ")
    assert len(server.came) == 1


SHOWING = """
import json, os, sys
told = {name: value for name, value in os.environ.items()}
open("came.json", "w").write(json.dumps({"body": json.load(sys.stdin), "env": told, "argv": sys.argv[1:]}))
"""


def test_a_command_gets_the_alert_and_little_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_TOKEN", "hush")
    given = [sys.executable, "-c", SHOWING, "$HOME; x"]
    answer = sending.run(given, tmp_path, alert(), b'{"id": "1"}', "https://x.org/jobs/train", None)
    assert (answer.accepted, answer.said) == (True, "exit code 0")
    came = json.loads((tmp_path / "came.json").read_text())
    assert (came["body"], came["argv"]) == ({"id": "1"}, ["$HOME; x"])
    ours = {
        name.removeprefix("SLACKTIDE_ALERT_"): text for name, text in came["env"].items() if "ALERT" in name
    }
    assert ours == {
        "ID": "1-done-x", "KIND": "done", "JOB": "train", "OWNER": "ann", "TEXT": "train <&> is over",
        "TIME": "2026-01-01T00:00:00Z", "URL": "https://x.org/jobs/train",
    }  # fmt: skip
    assert "SLACKTIDE_TOKEN" not in came["env"]


def test_a_command_that_fails_says_so(tmp_path: Path) -> None:
    answer = sending.run(["sh", "-c", "exit 7"], tmp_path, alert(), b"x" * 1_000_000, "", None)
    assert (answer.accepted, answer.said, answer.final) == (False, "exit code 7", False)
    missing = sending.run([str(tmp_path / "none")], tmp_path, alert(), b"", "", None)
    assert missing.said == "it could not be started: No such file or directory"


def test_a_command_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    script = 'sleep 600 & echo $! > child; trap "" TERM; echo up > up; wait; sleep 600'
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(sending, "GRACE_S", 0.2)
        answer = sending.run(["sh", "-c", script], tmp_path, alert(), b"", "", None, limit_s=0.5)
    assert answer.said == "it did not end within 0.5 s"
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 60
    while _runs(child):
        assert time.monotonic() < until
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
    except OSError:
        os.kill(pid, 0)
        return True
