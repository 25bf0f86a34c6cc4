"""Alerts of real processes: signed webhooks over failures and kills, a command, and what is said of them."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from slacktide.cli import run
from slacktide.journal.events import HealthChanged
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore
from tests.unit.app.alerts.parts_of_alerts import Receiver, receiver

from .parts_of_runs import wait_until
from .parts_of_servers import Server

SECRET = "0123456789abcdef0123456789abcdef"
DONE = """\
name: {name}
run: "true"
resources: {{accelerators: "H100:1..2"}}
work: 1 gpu-hours
deadline: 100h
policy: on-demand
"""
FAILS = DONE.replace('run: "true"', "run: 'while [ ! -e {go} ]; do sleep 0.1; done; exit 3'")


@pytest.fixture
def alerts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Receiver]]:
    """An alerts file with a webhook that fails at first, and a command."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    script = tmp_path / "note.sh"
    script.write_text(
        '#!/bin/sh\ncat >> came.jsonl\necho >> came.jsonl\necho "$SLACKTIDE_ALERT_KIND" >> kinds\n'
    )
    script.chmod(0o700)
    with receiver(500, 503) as server:
        path = tmp_path / "alerts.toml"
        path.write_text(
            f'[[hook]]\nname = "ops"\nurl = "{server.url}"\nsecret_env = "HOOK_SECRET"\n'
            "allow_private = true\n"
            '[[hook]]\nname = "desk"\ncommand = ["./note.sh"]\non = ["done"]\n'
        )
        path.chmod(0o600)
        yield path, server


def ids(server: Receiver) -> list[str]:
    return [json.loads(came.body)["id"] for came in server.came]


def kinds(server: Receiver) -> dict[str, str]:
    """Return the kinds of alerts that came, each with its job; every request must be signed."""
    found = {}
    for came in list(server.came):
        signed = dict(part.split("=", 1) for part in came.headers["Slacktide-Signature"].split(","))
        wanted = hmac.new(SECRET.encode(), f"{signed['t']}.".encode() + came.body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(wanted, signed["v1"])
        told = json.loads(came.body)
        found[told["kind"]] = told["job"]
    return found


def submit(server: Server, text: str, name: str) -> None:
    body = {"text": text, "name": f"{name}.yaml"}
    assert server.ask("POST", "/api/v1/jobs?wait=60", body, idempotency_key=name)[0] == 201


def test_alerts_come_signed_over_failures_and_kills(
    journal: Path,
    alerts: tuple[Path, Receiver],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, there = alerts
    server = Server(journal, "--speed", "60", "--start", "0", "--alerts", str(path))
    try:
        server.start()
        submit(server, FAILS.format(name="second", go=tmp_path / "go"), "second")
        submit(server, DONE.format(name="first"), "first")
        wait_until(lambda: "done" in kinds(there))
        server.kill()  # while the webhook, which failed, is about to be tried again
        with SqliteStore(journal) as store:  # as if it had been killed just after it wrote this
            at_hours = read_state(store).now_hours
            store.append([HealthChanged(job="second", at_hours=at_hours, health="at-risk")])
        (tmp_path / "go").touch()
        server.start()
        wait_until(lambda: set(kinds(there)) == {"done", "at-risk", "failed"})
        wait_until(lambda: 'slacktide_alerts_sent_total{hook="ops"} 3' in metrics(server))
        wait_until((tmp_path / "kinds").exists)
        said, url = server.said, server.url
        monkeypatch.setenv("SLACKTIDE_TOKEN", server.token)
        capsys.readouterr()
        assert run(["alerts", "show", "--server", url, "-o", "json"]) == 0
        told = json.loads(capsys.readouterr().out)["hooks"]
    finally:
        server.stop()
    first = next(json.loads(came.body) for came in there.came if b'"first"' in came.body)
    assert first["url"] == f"{url}/jobs/first"
    assert re.fullmatch(r"first: the job succeeded after .*; it cost \$.*", first["text"])
    assert kinds(there) == {"done": "first", "at-risk": "second", "failed": "second"}
    assert len(there.came) >= 5, "two tries failed"
    assert len(set(ids(there))) == 3, "what comes again has the same id"
    assert {json.loads(line)["job"] for line in (tmp_path / "came.jsonl").read_text().splitlines()} == {
        "first"
    }
    assert set((tmp_path / "kinds").read_text().split()) == {"done"}
    capsys.readouterr()
    assert run(["alerts", "show", "-o", "json"]) == 0
    shown = capsys.readouterr().out
    (desk, ops) = json.loads(shown)["hooks"]
    assert (ops["name"], ops["sent"], ops["waiting"], ops["dropped"]) == ("ops", 3, 0, 0)
    assert (desk["name"], desk["waiting"]) == ("desk", 0)
    assert told[1] == ops, "a server tells what is beside its journal"
    outbox = journal.with_name(".journal.db.alerts").read_bytes()
    for place in (said, shown, journal.read_bytes().decode("latin-1"), outbox.decode("latin-1")):
        assert "hush" not in place
        assert SECRET not in place


def metrics(server: Server) -> str:
    parts = urlsplit(server.url)
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)) as connection:
        connection.request("GET", "/metrics", headers={"authorization": f"Bearer {server.token}"})
        return connection.getresponse().read().decode()


def test_hooks_are_tried_with_a_sample(
    journal: Path, alerts: tuple[Path, Receiver], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, there = alerts
    assert run(["alerts", "test", str(path)]) == 4
    out = capsys.readouterr().out.splitlines()
    shown = there.url.partition("/hush")[0]
    assert out[0] == f"ops                      failed    {shown}: HTTP 500 Internal Server Error"
    assert out[1] == "desk                     accepted  command note.sh: exit code 0"
    there.answers.clear()
    assert run(["alerts", "test", str(path), "--hook", "ops", "-o", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["hooks"]
    assert (one["hook"], one["accepted"], one["said"]) == ("ops", True, "HTTP 200 OK")
    assert json.loads(there.came[-1].body)["kind"] == "test"
    assert run(["alerts", "test", str(path), "--hook", "opps"]) == 2
    assert "did you mean 'ops'" in capsys.readouterr().err
    assert run(["alerts", "show"]) == 2, "there is no journal"
    assert journal.exists() is False
