"""The journal's tables, and how a file is recognized: by SQLite's application id and user version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from slacktide.core.errors import FileError
from slacktide.journal.store.sqlite_errors import ANOTHER, family

APPLICATION_ID = int.from_bytes(b"Slck")
VERSION = 1

# `data` is the event, whole; the other columns repeat what one searches by, for people and for the index.
TABLE = (
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        time_utc TEXT NOT NULL,
        job TEXT NOT NULL,
        kind TEXT NOT NULL,
        actor TEXT NOT NULL,
        at_hours REAL NOT NULL,
        why TEXT NOT NULL,
        data TEXT NOT NULL
    )""",
    "CREATE INDEX events_of_job ON events (job)",
    """CREATE TRIGGER no_update BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'a journal is only added to'); END""",
    """CREATE TRIGGER no_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'a journal is only added to'); END""",
    # INSERT OR REPLACE takes the old row away without asking the trigger above.
    """CREATE TRIGGER no_replace BEFORE INSERT ON events
    WHEN EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq)
    BEGIN SELECT RAISE(ABORT, 'a journal is only added to'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

SNAPSHOTS = """CREATE TABLE IF NOT EXISTS snapshots (
    seq INTEGER NOT NULL, form TEXT NOT NULL, body BLOB NOT NULL
)"""
"""A cache next to the events, created with the first snapshot; a journal without it is whole."""


class Identity(NamedTuple):
    """What a database says it is."""

    application: int
    version: int
    objects: int  # tables, indexes and triggers in it


NOTHING_YET = Identity(0, 0, 0)


def identity(database: sqlite3.Connection) -> Identity:
    """Return what a database says it is, without changing it."""
    pragmas = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    return Identity(*(database.execute(pragma).fetchone()[0] for pragma in pragmas))


def check(found: Identity, path: Path) -> None:
    """Raise FileError unless this is a journal that this version of Slacktide can use."""
    if found == NOTHING_YET:
        raise FileError(f"must be a journal of Slacktide, got an empty file; {ANOTHER}", path=path)
    if found.application != APPLICATION_ID:
        raise FileError(
            f"must be a journal of Slacktide, got another program's database; {ANOTHER}",
            path=path,
        )
    if found.version != VERSION:
        raise FileError(
            f"must be a journal of version {VERSION}, got version {found.version}; "
            f"use the Slacktide that wrote it, or {ANOTHER}",
            path=path,
        )


def check_events(database: sqlite3.Connection) -> None:
    """Look at the table of events; raises sqlite3.OperationalError unless it is there with its columns."""
    database.execute("SELECT seq, time_utc, job, kind, actor, at_hours, why, data FROM events LIMIT 0")


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn what SQLite says of a file whose format or tables are others into a FileError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if family(error) != sqlite3.SQLITE_ERROR:
            raise
        raise FileError(
            f"the events of a journal must be open and usable, got: {error}; restore a copy, or {ANOTHER}",
            path=path,
        ) from error
