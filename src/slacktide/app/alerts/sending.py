"""Sending one alert to one hook, once: an HTTP POST to a webhook, or a command that runs with it.

The POST uses the standard library: no proxy, no redirect, and the host's name is looked up only once.
When to try again is decided elsewhere (`alerting`).
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from slacktide.app.alerts import payload
from slacktide.app.alerts.address import Address, Forbidden, Resolver, Target, resolved
from slacktide.app.alerts.alert import Alert, Hook
from slacktide.core.waits import retry_after_s

ANSWER_S = 5.0  # how long a receiver may take for all of an answer
LEAST_S = 0.1  # what a further address of a receiver is given at least
UNACCEPTABLE = (400, 406, 409, 411, 413, 414, 415, 416, 417, 422, 431)
"""Statuses about the alert itself, which would be refused again; others are about the address."""
COMMAND_S = 30.0
GRACE_S = 5.0  # between SIGTERM and SIGKILL
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ")
"""What of the controller's environment a command gets."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered, or why there was no answer."""

    accepted: bool
    said: str  # in a few words, without anything secret
    wait_s: float = 0.0  # how long the receiver wants no further try
    final: bool = False  # whether this alert will never be accepted


Sender: TypeAlias = Callable[[Hook, Alert, str], Answer]
"""Takes a hook, an alert, and where browsers find the dashboard."""


def send(hook: Hook, alert: Alert, dashboard: str, *, output: int | None = subprocess.DEVNULL) -> Answer:
    """Send an alert to a hook; raises nothing. `output` is where a command's own output goes."""
    body = payload.body(alert, hook.format, dashboard)
    if hook.target is None:
        return run(hook.command, hook.folder, alert, body, payload.page(alert, dashboard), output)
    return post(hook.target, alert.id, body, hook.secret, private=hook.allow_private)


def post(
    target: Target, id_: str, body: bytes, secret: bytes, *, private: bool, resolver: Resolver | None = None
) -> Answer:
    """Post an alert; raises nothing. `private`: the receiver may be in one's own network."""
    try:
        addresses = resolved(target, private=private, resolver=resolver)
        status, wait = _posted(target, addresses, body, _headers(id_, body, secret))
    except (Forbidden, OSError, ValueError, http.client.HTTPException) as error:
        return Answer(False, reason(error))
    return meant(status, wait)


def meant(status: int, retry_after: str | None) -> Answer:
    """Return what a status means: accepted, not now, never, or that the address is wrong."""
    said = f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()
    if 200 <= status < 300:
        return Answer(True, said)
    if 300 <= status < 400:
        return Answer(False, f"{said}, a redirect, which is not followed")
    return Answer(
        False, said, retry_after_s(retry_after, datetime.now(UTC)), final=status in UNACCEPTABLE
    )  # fmt: skip


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
    signed = {payload.SIGNATURE: payload.signature(secret, body, int(time.time()))} if secret else {}
    return {
        "Content-Type": "application/json",
        "User-Agent": f"slacktide/{version('slacktide')}",
        "Connection": "close",
        "Slacktide-Alert": id_,
        **signed,
    }


def _posted(
    target: Target, addresses: Sequence[Address], body: bytes, headers: Mapping[str, str]
) -> tuple[int, str | None]:
    """Post to the first of these addresses that can be reached; return the status and `Retry-After`.

    Nothing but the head of the answer is read.
    """
    with _Line(target, addresses) as line:
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.sock = line.socket
        connection.request("POST", target.path, body, {"Host": target.netloc, **headers})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Retry-After")


class _Line:
    """A connection that is cut when all of it has taken too long.

    A socket's own time limit begins anew with every byte that comes; this one does not.
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
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit.cancel()
        self.socket.close()
        if self._cut and error is not None:
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
    """End a command and all that it started."""
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
