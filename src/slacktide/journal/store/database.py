"""The SQLite file of a journal: its tables, how it is recognized and opened, and what can go wrong."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from slacktide.core.errors import BackendError, FileError, SlacktideError
from slacktide.core.files import PRIVATE_FILE, keep_from_others, make_private_folder
from slacktide.journal.store.paths import ANOTHER

APPLICATION_ID = int.from_bytes(b"Slck")
VERSION = 1

# `data` is the whole event; the other columns repeat parts of it, for searches by people and by the index.
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
    # INSERT OR REPLACE deletes the old row without firing the trigger above.
    """CREATE TRIGGER no_replace BEFORE INSERT ON events
    WHEN EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq)
    BEGIN SELECT RAISE(ABORT, 'a journal is only added to'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

SNAPSHOTS = """CREATE TABLE IF NOT EXISTS snapshots (
    seq INTEGER NOT NULL, form TEXT NOT NULL, body BLOB NOT NULL
)"""  # a cache next to the events, created with the first snapshot; a journal without it is whole


LOOK = "SELECT seq, time_utc, job, kind, actor, at_hours, why, data FROM events LIMIT 0"


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


def _check(found: Identity, path: Path) -> None:
    """Raise FileError unless this is a journal that this version of Slacktide can use."""
    if found == NOTHING_YET:
        raise FileError(f"must be a journal of Slacktide, got an empty file; {ANOTHER}", path=path)
    if found.application != APPLICATION_ID:
        raise FileError(
            f"must be a journal of Slacktide, got another program's database; {ANOTHER}", path=path
        )
    if found.version != VERSION:
        raise FileError(
            f"must be a journal of version {VERSION}, got version {found.version}; "
            f"use the Slacktide that wrote it, or {ANOTHER}",
            path=path,
        )


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about a file with another format or other tables into FileError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if family(error) != sqlite3.SQLITE_ERROR:
            raise
        raise FileError(
            f"the events of a journal must be open and usable, got: {error}; restore a copy, or {ANOTHER}",
            path=path,
        ) from error


PAUSE_S = 0.01


def opened(path: Path, create: bool, patience_s: float) -> sqlite3.Connection:
    """Open the journal at a path; where there is none, make one with its folder if `create`.

    Raises FileError, and leaves the file as it is, when it is not a usable journal.
    """
    if path.is_dir():
        raise FileError(f"a journal must be a file, got a folder; {ANOTHER}", path=path)
    if not create and not path.exists():
        raise FileError(f"the journal must exist, got nothing there; submit a job, or {ANOTHER}", path=path)
    if create:
        make_private(path)
    with translated_errors(path):
        _refuse_a_log_alone(path)
        database = connected(path, create, patience_s)
        try:
            if create and _identity(database, path) == NOTHING_YET:
                _lay_out(database)
            _check(_identity(database, path), path)
            _keep_from_others(path)
            with _usable(path):
                database.execute(LOOK)
            # Last, because it writes: a file that is not a journal must stay as it is.
            _write_ahead(database, path, time.monotonic() + patience_s)
        except BaseException:
            database.close()
            raise
    return database


def make_private(path: Path) -> None:
    """Make the folder and an empty file that no other user may read, where there are none.

    SQLite gives its other files the permissions of this one, but would create this one by the umask.
    """
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise FileError(
            f"its folder must be writable, got: {error.strerror}; check the permissions, or {ANOTHER}",
            path=path,
        ) from error
    with suppress(OSError):  # it is there already; or SQLite fails on it too, and it is reported in our words
        # Never an existing one: closing it would release the locks that SQLite may have on it.
        os.close(os.open(path.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))


def _keep_from_others(path: Path) -> None:
    """Remove other users' access to the files of a journal, which an earlier version may have left open."""
    place = path.resolve()
    lease = place.with_name(f".{place.name}.lease")
    for file in (place, Path(f"{place}-wal"), Path(f"{place}-shm"), lease):
        keep_from_others(file)


def _refuse_a_log_alone(path: Path) -> None:
    """Raise FileError for an empty file next to a log: SQLite would throw away what is in the log."""
    log = path.with_name(f"{path.name}-wal")
    if path.exists() and path.stat().st_size == 0 and log.exists() and log.stat().st_size > 0:
        raise FileError(
            f"must be a journal of Slacktide, whole, got an empty file, although {log.name} has events; "
            f"they were left as they are: restore a copy, or {ANOTHER}",
            path=path,
        )


def connected(path: Path, create: bool, patience_s: float) -> sqlite3.Connection:
    """Open a file without looking into it; the caller reports what fails."""
    return sqlite3.connect(
        f"{path.as_uri()}?mode={'rwc' if create else 'rw'}",
        uri=True,
        timeout=patience_s,
        isolation_level=None,  # transactions are begun and ended here, by name
        check_same_thread=False,  # the store has a lock of its own
    )


def _identity(database: sqlite3.Connection, path: Path) -> Identity:
    # In one transaction: between two, another process could finish creating the journal.
    with _usable(path), transaction(database, "BEGIN"):
        return identity(database)


def _lay_out(database: sqlite3.Connection) -> None:
    with transaction(database):
        # Another process may have created it between our look and our turn.
        if identity(database) == NOTHING_YET:
            for statement in TABLE:
                database.execute(statement)


def _write_ahead(database: sqlite3.Connection, path: Path, until: float) -> None:
    database.execute("PRAGMA synchronous = FULL")
    while True:
        try:
            mode = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            # If two processes change the mode at once, SQLite fails one of them without waiting.
            if family(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(PAUSE_S)
    if mode != "wal":
        raise FileError(
            f"a journal must be on a local disk, got a file system that cannot share memory; {ANOTHER}",
            path=path,
        )


@contextmanager
def transaction(database: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Do what the block does as one step: written whole or not at all, after other writers are done."""
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # after some failures SQLite has rolled back already
            database.execute("ROLLBACK")
        raise


TROUBLES = {
    sqlite3.SQLITE_FULL: ("the disk must have space for the journal", "free some space and try again"),
    sqlite3.SQLITE_IOERR: ("the disk under the journal must work", "check the disk and try again"),
    sqlite3.SQLITE_BUSY: ("other processes must release the journal soon", "stop the one that holds it"),
}  # what must hold and what to do, by SQLite's code


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the operating system raise into our errors, each naming the journal.

    A file that cannot be used is a FileError; a disk or a process in the way is a BackendError.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _fault(path, error) from error
    except UnicodeDecodeError as error:  # even SQLite's message is not text
        raise _damaged(path, NO_TEXT) from error
    except OSError as error:
        raise BackendError(
            f"{path}: the disk under the journal must work, got: {error.strerror or error}; "
            "check the disk and try again; nothing was written"
        ) from error


DAMAGED = (
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_CONSTRAINT,
)  # codes that only a damaged file, or one that is not a journal, can cause


NO_TEXT = "text that is not UTF-8"


def family(error: sqlite3.Error) -> int:
    """Return SQLite's main code for a failure; 0 for Python's own, such as the use of a closed file."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF


def _fault(path: Path, error: sqlite3.Error) -> SlacktideError:
    code = family(error)
    # A text that could not be decoded has no code of SQLite's, and Python would quote the whole of it.
    if isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode"):
        return _damaged(path, NO_TEXT)
    # A short read: the file ended where SQLite knows of more.
    if code in DAMAGED or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ:
        return _damaged(path, error)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return FileError(
            f"the journal and its folder must be writable, even for reading, got: {error}; "
            f"check the permissions, or {ANOTHER}",
            path=path,
        )
    if code not in TROUBLES:
        return BackendError(f"{path}: the journal must be open and usable, got: {error}; open it again")
    must, remedy = TROUBLES[code]
    return BackendError(f"{path}: {must}, got: {error}; {remedy}; nothing was written")


def _damaged(path: Path, got: object) -> FileError:
    return FileError(
        f"must be a journal of Slacktide, whole, got: {got}; it was left as it is: restore a copy, save what "
        f"is left with the .recover command of sqlite3, or {ANOTHER}",
        path=path,
    )
