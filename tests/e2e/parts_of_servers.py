"""A real server on the loopback, and a client that keeps asking while it is killed."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slacktide.app.tokens import tokens_of

from .parts_of_runs import wait_until

JOB = """\
name: {name}
run: "true"
resources: {{accelerators: "H100:1..2"}}
work: 1 gpu-hours
deadline: 12h
policy: on-demand
"""


class Server:
    """A server of a journal, started, killed and started again on the same port."""

    def __init__(self, journal: Path, *options: str) -> None:
        self.journal, self._options = journal, options
        self.token = tokens_of(journal).add("tester", "submit")
        self._port, self._log = 0, journal.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        """Start it, and return when it answers."""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "slacktide", "serve", "--journal", str(self.journal), "--port",
                 str(self._port), "--rate", "10000", "--no-warm-up", *self._options],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_until(lambda: self._is_ready() or self._is_over())
        found = re.search(r"ready on (http://\S+)", self.said)
        assert found, self.said
        self.url = found[1]
        self._port = urlsplit(self.url).port or 0

    @property
    def said(self) -> str:
        """What it printed."""
        return self._log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """End it without a word."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it in order, and return its exit code."""
        if self.process is None:
            return 0
        self.process.terminate()
        return self.process.wait(timeout=180)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Send one request; raises OSError or HTTPException where nobody answers."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            sent = {"authorization": f"Bearer {self.token}", **_named(headers)}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            raw = answer.read()
            return answer.status, json.loads(raw) if raw else None
        finally:
            connection.close()

    def _is_ready(self) -> bool:
        return "ready on " in self.said

    def _is_over(self) -> bool:
        return self.process is None or self.process.poll() is not None


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


class Submitter(threading.Thread):
    """Submits jobs one after the other, each with its own key, again and again until it is accepted."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__(name=name)
        self._server, self._enough = server, threading.Event()
        self.accepted: dict[str, str | None] = {}
        self.broken = 0
        """Requests that were cut off."""

    def run(self) -> None:
        """Submit until it is enough."""
        while not self._enough.is_set():
            self._submit(f"{self.name}-{len(self.accepted)}")

    def enough(self) -> None:
        """Finish the present submission, and end."""
        self._enough.set()

    def _submit(self, key: str) -> None:
        body = {"text": JOB.format(name=key), "name": f"{key}.yaml"}
        while True:
            try:
                path = "/api/v1/jobs?wait=5"
                status, answer = self._server.ask("POST", path, body, idempotency_key=key)
            except (OSError, http.client.HTTPException, ValueError):
                self.broken += 1
                if self._enough.wait(0.05) and key not in self.accepted:
                    return
                continue
            assert status in (201, 202), answer
            self.accepted[key] = answer["job"]
            return
