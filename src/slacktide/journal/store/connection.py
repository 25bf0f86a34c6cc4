"""Opening a journal on disk: checked to be one before it is used, and created where there is none."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slacktide.core.errors import FileError
from slacktide.core.files import PRIVATE_FILE, keep_from_others, make_private_folder
from slacktide.journal.store import schema
from slacktide.journal.store.sqlite_errors import ANOTHER, family, translated_errors

PAUSE_S = 0.01


def opened(path: Path, create: bool, patience_s: float) -> sqlite3.Connection:
    """Open the journal at a path; where there is none, make one with its folder if `create`.

    Raises FileError, and leaves the file as it is, when it is no journal that can be used.
    """
    if path.is_dir():
        raise FileError(f"a journal must be a file, got a folder; {ANOTHER}", path=path)
    if not create and not path.exists():
        raise FileError(f"the journal must exist, got nothing there; submit a job, or {ANOTHER}", path=path)
    if create:
        _make_private(path)
    with translated_errors(path):
        _refuse_a_log_alone(path)
        database = connected(path, create, patience_s)
        try:
            if create and _identity(database, path) == schema.NOTHING_YET:
                _lay_out(database)
            schema.check(_identity(database, path), path)
            _keep_from_others(path)
            with schema.usable(path):
                schema.check_events(database)
            _write_ahead(database, path, time.monotonic() + patience_s)
        except BaseException:
            database.close()
            raise
    return database


def _make_private(path: Path) -> None:
    """Make the folder and an empty file that no other user may read, where there are none.

    SQLite gives its other files the rights of this one, but makes it as open as the umask says.
    """
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise FileError(
            f"its folder must be writable, got: {error.strerror}; check the permissions, or {ANOTHER}",
            path=path,
        ) from error
    with suppress(OSError):  # it is there already; or SQLite fails on it too, and it is reported in our words
        # Never one that is there: closing it again would take away the locks that SQLite may have on it.
        os.close(os.open(path.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))


def _keep_from_others(path: Path) -> None:
    """Close the files of a journal that an earlier version left open to others."""
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


def _identity(database: sqlite3.Connection, path: Path) -> schema.Identity:
    # In one transaction: between two, another process could finish creating the journal.
    with schema.usable(path), transaction(database, "BEGIN"):
        return schema.identity(database)


def _lay_out(database: sqlite3.Connection) -> None:
    with transaction(database):
        # Another process may have created it between our look and our turn.
        if schema.identity(database) == schema.NOTHING_YET:
            for statement in schema.TABLE:
                database.execute(statement)


def _write_ahead(database: sqlite3.Connection, path: Path, until: float) -> None:
    database.execute("PRAGMA synchronous = FULL")
    while True:
        try:
            mode = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            # Of two who change the mode at once SQLite sends one away without letting it wait.
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
