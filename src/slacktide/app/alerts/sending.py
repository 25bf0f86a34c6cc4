"""Sends one alert to one hook, once: an HTTP POST to a webhook, or a command that is run with it.

Receivers get JSON under stable keys, or in Slack's form, and a signature. The POST uses the standard library:
no proxy, no redirect, and the host's name is looked up only once. `alerting` decides when to try again.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote

from slacktide.app.alerts.address import Address, Forbidden, Resolver, Target, resolved
from slacktide.app.alerts.alert import TEST, Alert, AlertsFile, Format, Hook
from slacktide.core.waits import retry_after_s
from slacktide.report.wire import values

ANSWER_S = 5.0  # how long a receiver may take for its whole answer
LEAST_S = 0.1  # the least time for a try of a receiver's next address
UNACCEPTABLE = (400, 406, 409, 411, 413, 414, 415, 416, 417, 422, 431)
"""Statuses about the alert itself, which would be refused again; others are about the address."""
COMMAND_S = 30.0
GRACE_S = 5.0  # between SIGTERM and SIGKILL
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ")
"""The variables of the controller's environment that a command gets."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered, or why there was no answer."""

    accepted: bool
    said: str  # the answer in a few words, without anything secret
    wait_s: float = 0.0  # how long to wait before another try, as the receiver asked
    final: bool = False  # whether this alert will never be accepted


Sender: TypeAlias = Callable[[Hook, Alert, str], Answer]
"""Takes a hook, an alert, and where browsers find the dashboard."""


def send(hook: Hook, alert: Alert, dashboard: str, *, output: int | None = subprocess.DEVNULL) -> Answer:
    """Send an alert to a hook; raises nothing. `output` is where a command's own output goes."""
    body = payload(alert, hook.format, dashboard)
    if hook.target is None:
        return run(hook.command, hook.folder, alert, body, page(alert, dashboard), output)
    return post(hook.target, alert.id, body, hook.secret, private=hook.allow_private)


def post(
    target: Target, id_: str, body: bytes, secret: bytes, *, private: bool, resolver: Resolver | None = None
) -> Answer:
    """Post an alert to the first address of its receiver that can be reached; raises nothing.

    `private`: the receiver may have a private address. Only the head of the answer is read.
    """
    headers = {"Host": target.netloc, **_headers(id_, body, secret)}
    try:
        with _Line(target, resolved(target, private=private, resolver=resolver)) as line:
            connection = http.client.HTTPConnection(target.host, target.port)
            connection.sock = line.socket
            connection.request("POST", target.path, body, headers)
            answer = connection.getresponse()
    except (Forbidden, OSError, ValueError, http.client.HTTPException) as error:
        return Answer(False, reason(error))
    return meant(answer.status, answer.getheader("Retry-After"))


def meant(status: int, retry_after: str | None) -> Answer:
    """Return what a status means: accepted, not now, never, or that the address is wrong."""
    said = f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()
    if 200 <= status < 300:
        return Answer(True, said)
    if 300 <= status < 400:
        return Answer(False, f"{said}, a redirect, which is not followed")
    wait_s = retry_after_s(retry_after, datetime.now(UTC))
    return Answer(False, said, wait_s, final=status in UNACCEPTABLE)


def reason(error: Exception) -> str:
    """Say what went wrong while sending, without the address."""
    if isinstance(error, Forbidden):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_S:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, http.client.HTTPException):
        return "an answer that is not HTTP"
    return getattr(error, "strerror", None) or type(error).__name__


def _headers(id_: str, body: bytes, secret: bytes) -> dict[str, str]:
    signed = {SIGNATURE: signature(secret, body, int(time.time()))} if secret else {}
    return {
        "Content-Type": "application/json",
        "User-Agent": f"slacktide/{version('slacktide')}",
        "Connection": "close",
        "Slacktide-Alert": id_,
        **signed,
    }


class _Line:
    """A connection that is cut when the whole exchange takes too long.

    A socket's own time limit starts over with every byte that comes; this one does not.
    """

    def __init__(self, target: Target, addresses: Sequence[Address]) -> None:
        self._until = time.monotonic() + ANSWER_S
        self._cut = False
        self.socket = self._connected(target, addresses)
        self._limit = threading.Timer(max(LEAST_S, self._until - time.monotonic()), self._end)
        self._limit.daemon = True
        self._target = target

    def __enter__(self) -> Self:
        self._limit.start()
        try:
            if self._target.scheme == "https":
                self._secure()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._limit.cancel()
        self.socket.close()
        if self._cut and kind is not None:
            raise TimeoutError from None

    def _connected(self, target: Target, addresses: Sequence[Address]) -> socket.socket:
        failed = OSError("the name has no address")
        for address in addresses:
            left = max(LEAST_S, self._until - time.monotonic())
            try:
                return socket.create_connection((str(address), target.port), timeout=left)
            except OSError as error:
                failed = error
        raise failed

    def _secure(self) -> None:
        """Begin TLS; the certificate must be for the name, whatever the address is."""
        secured = ssl.create_default_context().wrap_socket(
            self.socket, server_hostname=self._target.host, do_handshake_on_connect=False
        )
        self.socket = secured
        secured.do_handshake()

    def _end(self) -> None:
        self._cut = True
        with suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


def run(
    command: Sequence[str], folder: Path, alert: Alert, body: bytes, link: str, output: int | None,
    *, limit_s: float = COMMAND_S,
) -> Answer:  # fmt: skip
    """Run a command in a folder, without a shell and for a limited time; raises nothing."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=folder,
            env=_environment(alert, link), start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Answer(False, f"it could not be started: {error.strerror}")
    try:
        process.communicate(body, timeout=limit_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return Answer(False, f"it did not end within {limit_s:g} s")
    code = process.returncode
    return Answer(code == 0, f"exit code {code}" if code >= 0 else f"signal {-code}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and the processes that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _environment(alert: Alert, link: str) -> dict[str, str]:
    variables = {
        "ID": alert.id,
        "KIND": alert.kind,
        "JOB": alert.job,
        "OWNER": alert.owner,
        "TEXT": alert.text,
        "TIME": alert.time_utc,
        "URL": link,
    }
    ours = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **ours,
        **{f"SLACKTIDE_ALERT_{name}": text.replace("\0", " ") for name, text in variables.items()},
    }


VERSION = 1  # of the form of the JSON; keys may be added to it, but none is removed
SIGNATURE = "Slacktide-Signature"
SLACK_CHARACTERS = 3000  # the most that Slack shows of a text without folding it away
TITLES = {
    "at-risk": "At risk",
    "late": "Late",
    "done": "Done",
    "failed": "Failed",
    "budget": "Budget",
    "feed-stale": "Market feed",
    "machine-leaked": "Machine without owner",
    "test": "Test",
}


def payload(alert: Alert, form: Format, dashboard: str = "") -> bytes:
    """Return what is sent for an alert; `dashboard` is where browsers find the server, empty: nowhere."""
    link = page(alert, dashboard)
    document_ = slack(alert, link) if form == "slack" else document(alert, link)
    return json.dumps(document_, allow_nan=False).encode()


def document(alert: Alert, link: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "id": alert.id,
        "kind": alert.kind,
        "text": alert.text,
        "job": alert.job or None,
        "owner": alert.owner or None,
        "time_utc": alert.time_utc,
        "journal": alert.journal,
        "seq": alert.seq,
        "url": link or None,
        "details": dict(alert.details),
    }


def slack(alert: Alert, link: str) -> dict[str, Any]:
    """Return an alert in the form of Slack's incoming webhooks, which other services accept, too."""
    text = _escaped(alert.text[:SLACK_CHARACTERS])
    more = f" (<{_escaped(link)}|open>)" if link else ""
    return {"text": f"*{TITLES[alert.kind]}*: {text}{more}"}


def page(alert: Alert, dashboard: str) -> str:
    """Return the URL of the dashboard's page for an alert; empty if there is no dashboard."""
    if not dashboard:
        return ""
    base = dashboard.rstrip("/")
    if alert.job:
        return f"{base}/jobs/{quote(alert.job, safe='')}"
    places = {"budget": "/fleet", "feed-stale": "/markets", "machine-leaked": "/machines"}
    return f"{base}{places.get(alert.kind, '/')}"


def signature(secret: bytes, sent: bytes, at_s: int) -> str:
    """Return the value of the header by which a receiver checks that we sent it, and when."""
    digest = hmac.new(secret, f"{at_s}.".encode() + sent, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def _escaped(text: str) -> str:
    """Escape a text so that Slack finds no links, mentions or channels in it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of sending a sample to a hook."""

    hook: str
    target: str
    accepted: bool
    said: str


def try_hooks(file: AlertsFile, name: str | None = None) -> list[Trial]:
    """Send a sample to one hook, or to all, and return the results; raises UnknownNameError."""
    hooks = file.hooks if name is None else (file.hook(name),)
    sample = _sample()
    trials = []
    for hook in hooks:
        answer = send(hook, sample, file.dashboard, output=None)
        trials.append(Trial(hook.name, hook.shown, answer.accepted, answer.said))
    return trials


def _sample() -> Alert:
    return Alert(
        id=f"0-{TEST}-{secrets.token_hex(6)}",
        kind=TEST,
        journal=TEST,
        seq=0,
        time_utc=values.utc(datetime.now(UTC)),
        text="This is a test of Slacktide's alerts; nothing has happened.",
    )
