"""What users can query about alerts: whether hooks work, and the state of each."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from slacktide.app.alerts.alert import TEST, Alert, AlertsFile
from slacktide.app.alerts.outbox import HookStatus, Outbox
from slacktide.app.alerts.sending import send
from slacktide.app.journal.journal import open_journal
from slacktide.journal.store.default_paths import hidden_sibling
from slacktide.report.wire import values

ADDRESS = re.compile(r"\S+://\S+|'[^']*'|\b\d+(?:\.\d+){3}\b|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*")
"""Where a hook leads, in the text of its errors: a URL, a name in quotes, an IPv4 or IPv6 address."""
HIDDEN = "(hidden)"


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


def hook_statuses(journal: Path) -> list[HookStatus]:
    """Return the state of a journal's hooks; none where no controller had any. Raises FileError."""
    with open_journal(journal):  # there must be one
        pass
    return stored_statuses(journal)


def statuses_for_readers(journal: Path) -> list[HookStatus]:
    """Return the state of a server's hooks, without any address: readers need not know it."""
    return [
        replace(one, error=None if one.error is None else ADDRESS.sub(HIDDEN, one.error))
        for one in stored_statuses(journal)
    ]


def stored_statuses(journal: Path) -> list[HookStatus]:
    """Read the state of hooks from the file next to a journal; none where there is no such file."""
    if not hidden_sibling(journal, "alerts").exists():
        return []
    outbox = Outbox(journal, create=False)
    try:
        return outbox.statuses()
    finally:
        outbox.close()


def _sample() -> Alert:
    now = values.utc(datetime.now(UTC))
    return Alert(
        id=f"0-{TEST}-{secrets.token_hex(6)}",
        kind=TEST,
        journal=TEST,
        seq=0,
        time_utc=now,
        text="This is a test of Slacktide's alerts; nothing has happened.",
    )
