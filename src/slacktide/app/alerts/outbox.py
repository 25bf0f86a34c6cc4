"""Alerts that wait for their hooks, in a file next to the journal.

One transaction stores alerts together with the event up to which the journal was searched; another moves a
hook on after it received an alert. So after any crash an alert is found or sent again, and never lost. The
journal itself is not written to: what a receiver answered is not about jobs.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slacktide.app.alerts.alert import Alert
from slacktide.core.errors import BackendError, FileError
from slacktide.core.files import keep_from_others
from slacktide.journal.store.database import connected, make_private, transaction
from slacktide.journal.store.paths import hidden_sibling
from slacktide.report.wire import values

ADDRESS = re.compile(r"\S+://\S+|'[^']*'|\b\d+(?:\.\d+){3}\b|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*")
"""Where a hook leads, in the text of its errors: a URL, a name in quotes, an IPv4 or IPv6 address."""
HIDDEN = "(hidden)"
FORM = 1  # of the tables; a file of another form is refused
PATIENCE_S = 10.0
TABLES = (
    "CREATE TABLE IF NOT EXISTS watch (seq INTEGER NOT NULL, body TEXT NOT NULL)",
    # AUTOINCREMENT: a number is never used again, not even of an alert that is gone.
    "CREATE TABLE IF NOT EXISTS alerts (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS hooks (
        name TEXT PRIMARY KEY, number INTEGER NOT NULL, sent INTEGER NOT NULL DEFAULT 0,
        failed INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0,
        sent_utc TEXT, error TEXT, error_utc TEXT
    )""",
    f"PRAGMA user_version = {FORM}",
)
LAST = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'alerts'), 0)"
STATUS = """SELECT name, number, (SELECT count(*) FROM alerts WHERE alerts.number > hooks.number), sent,
    failed, dropped, sent_utc, error, error_utc FROM hooks ORDER BY name"""


@dataclass(frozen=True, slots=True)
class HookStatus:
    """The state of a hook."""

    name: str
    cursor: int  # the number of the last alert that was sent, dropped or not wanted
    waiting: int  # alerts after that one, those that it does not want included
    sent: int
    failed: int  # tries that failed
    dropped: int  # alerts that it will never receive, because its receiver refused them
    sent_utc: str | None
    error: str | None  # why the last try failed; None if it worked
    error_utc: str | None


class Outbox:
    """The file of waiting alerts; may be used from several threads.

    Methods raise FileError for a damaged file, and BackendError for errors of the disk.
    """

    def __init__(self, journal: Path, *, create: bool = True) -> None:
        """Open the outbox of a journal; with `create`, make it if there is none."""
        self.path = hidden_sibling(journal, "alerts")
        self._lock = threading.Lock()
        if create:
            make_private(self.path)
            keep_from_others(self.path)
        with self._as_our_errors():
            self._database = connected(self.path, create, PATIENCE_S)
            self._check(create)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def watched(self) -> tuple[int, str] | None:
        """Return the event up to which the journal was searched, and the stored `Watch`; None if new."""
        row: tuple[int, str] | None = self._row("SELECT seq, body FROM watch")
        return row

    def keep(self, seq: int, watch: str, alerts: Sequence[Alert]) -> None:
        """Store alerts together with the event up to which the journal was searched, and the `Watch` then."""
        with self._transaction() as database:
            database.executemany(
                "INSERT INTO alerts (body) VALUES (?)", [(alert.written(),) for alert in alerts]
            )
            database.execute("DELETE FROM watch")
            database.execute("INSERT INTO watch (seq, body) VALUES (?, ?)", (seq, watch))

    def know(self, names: Sequence[str]) -> None:
        """Make these the only hooks: a new one gets only later alerts, others are deleted."""
        with self._transaction() as database:
            marks = ", ".join("?" * len(names))
            database.execute(f"DELETE FROM hooks WHERE name NOT IN ({marks})", names)
            new = f"INSERT OR IGNORE INTO hooks (name, number) SELECT ?, ({LAST})"
            database.executemany(new, [(name,) for name in names])
            self._forget(database)

    def next(self, hook: str) -> tuple[int, Alert] | None:
        """Return the first alert that a hook is not done with, and its number; None if there is none."""
        row = self._row(
            "SELECT number, body FROM alerts WHERE number > (SELECT number FROM hooks WHERE name = ?) "
            "ORDER BY number LIMIT 1",
            hook,
        )
        return None if row is None else (row[0], Alert(**json.loads(row[1])))

    def passed(self, hook: str, number: int) -> None:
        """Note that a hook is done with an alert that it does not want."""
        self._done(hook, number, "number = number")

    def sent(self, hook: str, number: int) -> None:
        self._done(hook, number, "sent = sent + 1, sent_utc = ?, error = NULL, error_utc = NULL", _now())

    def failed(self, hook: str, why: str) -> None:
        with self._transaction() as database:
            database.execute(
                "UPDATE hooks SET failed = failed + 1, error = ?, error_utc = ? WHERE name = ?",
                (why, _now(), hook),
            )

    def dropped(self, hook: str, number: int, why: str) -> None:
        counted = "failed = failed + 1, dropped = dropped + 1, error = ?, error_utc = ?"
        self._done(hook, number, counted, why, _now())

    def statuses(self) -> list[HookStatus]:
        with self._as_our_errors(), self._lock:
            return [HookStatus(*row) for row in self._database.execute(STATUS)]

    def _done(self, hook: str, number: int, change: str, *given: str) -> None:
        with self._transaction() as database:
            database.execute(f"UPDATE hooks SET {change}, number = ? WHERE name = ?", (*given, number, hook))
            self._forget(database)

    def _forget(self, database: sqlite3.Connection) -> None:
        """Delete alerts that every hook is done with."""
        database.execute("DELETE FROM alerts WHERE number <= (SELECT min(number) FROM hooks)")

    def _row(self, query: str, *given: str) -> Any:
        with self._as_our_errors(), self._lock:
            return self._database.execute(query, given).fetchone()

    def _check(self, create: bool) -> None:
        # An alert lost in a power cut would never be found again: the search has gone past its event.
        self._database.execute("PRAGMA synchronous = FULL")
        form = self._database.execute("PRAGMA user_version").fetchone()[0]
        if create and form == 0:
            with self._lock, transaction(self._database):
                for statement in TABLES:
                    self._database.execute(statement)
        elif form != FORM:
            raise FileError(f"must be a file of waiting alerts of form {FORM}, got {form}", path=self.path)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._as_our_errors(), self._lock, transaction(self._database):
            yield self._database

    @contextmanager
    def _as_our_errors(self) -> Iterator[None]:
        """Raise errors of SQLite as our own: a disk that is full may recover, a damaged file will not."""
        try:
            yield
        except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
            raise BackendError(f"{self.path}: alerts must be kept on the disk, got: {error}") from error
        except sqlite3.DatabaseError as error:
            must = "must be an intact file of waiting alerts, got something else; restore it, or remove it"
            raise FileError(must, path=self.path) from error


def _now() -> str:
    return values.utc(datetime.now(UTC))


def stored_statuses(journal: Path) -> list[HookStatus]:
    """Read the state of hooks from the file next to a journal; none if no controller had any."""
    if not hidden_sibling(journal, "alerts").exists():
        return []
    with closing(Outbox(journal, create=False)) as outbox:
        return outbox.statuses()


def statuses_for_readers(journal: Path) -> list[HookStatus]:
    """Return the state of a server's hooks, without any address: readers need not know it."""
    return [
        replace(hook, error=None if hook.error is None else ADDRESS.sub(HIDDEN, hook.error))
        for hook in stored_statuses(journal)
    ]
