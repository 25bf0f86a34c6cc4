"""What can go wrong with a journal on disk, in the words of a user."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slacktide.core.errors import BackendError, FileError, SlacktideError

ANOTHER = "name another with --journal"


TROUBLES = {
    sqlite3.SQLITE_FULL: (
        "the disk must have space for the journal",
        "free some space and try again; nothing was written",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk under the journal must work",
        "check the disk and try again; nothing was written",
    ),
    sqlite3.SQLITE_BUSY: (
        "other processes must release the journal soon",
        "stop the one that holds it; nothing was written",
    ),
}
"""What must hold and what to do, by SQLite's code."""


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the operating system raise into our errors, each naming the journal.

    A file that cannot be used is a FileError; a disk or a process in the way is a BackendError.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _fault(path, error) from error
    except UnicodeDecodeError as error:  # not even what SQLite says about it
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
)
"""Codes that only a file can cause which is no journal, or a damaged one."""
NO_TEXT = "text that is not UTF-8"


def family(error: sqlite3.Error) -> int:
    """Return SQLite's main code for a failure; 0 for Python's own, such as the use of a closed file."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF


def _fault(path: Path, error: sqlite3.Error) -> SlacktideError:
    code = family(error)
    if _is_no_text(error):
        return _damaged(path, NO_TEXT)  # Python would quote the whole text
    if code in DAMAGED or _is_cut_off(error):
        return _damaged(path, error)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return FileError(
            f"the journal and its folder must be writable, even for reading, got: {error}; "
            f"check the permissions, or {ANOTHER}",
            path=path,
        )
    must, remedy = TROUBLES.get(code, ("the journal must be open and usable", "open it again"))
    return BackendError(f"{path}: {must}, got: {error}; {remedy}")


def _damaged(path: Path, got: object) -> FileError:
    return FileError(
        f"must be a journal of Slacktide, whole, got: {got}; it was left as it is: restore a copy, save what "
        f"is left with the .recover command of sqlite3, or {ANOTHER}",
        path=path,
    )


def _is_cut_off(error: sqlite3.Error) -> bool:
    """Whether the file ended where SQLite knows of more."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ


def _is_no_text(error: sqlite3.Error) -> bool:
    """Whether a text could not be decoded: Python says so itself, without a code of SQLite's."""
    return isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")
