"""Running a command with an alert on its input."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from slacktide.app.alerts.alert import Alert
from slacktide.app.alerts.sending.answer import Answer

COMMAND_S = 30.0
GRACE_S = 5.0
"""Between telling a command to end and ending it."""
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ")
"""What of the controller's environment a command gets."""


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
    told = {
        "ID": alert.id,
        "KIND": alert.kind,
        "JOB": alert.job,
        "OWNER": alert.owner,
        "TEXT": alert.text,
        "TIME": alert.time_utc,
        "URL": link,
    }
    ours = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {**ours, **{f"SLACKTIDE_ALERT_{name}": text.replace("\0", " ") for name, text in told.items()}}
