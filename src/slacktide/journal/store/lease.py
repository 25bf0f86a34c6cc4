"""The lease: a file lock next to a journal that allows one controller at a time.

The lock is released when its holder dies, however it dies. The file stays: a process that removed it could
remove the one that another has just locked. If it is removed all the same, the holder notices at its next
`check`. The journal itself is not locked: closing any handle of it would drop SQLite's locks on it.
"""

from __future__ import annotations

import json
import os
import platform
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from slacktide.core.errors import BackendError, FileError, LeaseError
from slacktide.core.files import PRIVATE_FILE, make_private_folder
from slacktide.journal.store.base import now_utc
from slacktide.journal.store.paths import hidden_sibling, real_path

NOTE_BYTES = 4096
TRIES = 10
PAUSE_S = 0.01  # a process that looks for a controller has the lock for a moment; a controller keeps it


class JournalLease:
    """The right to act on a journal, held while the block runs.

    Raises LeaseError on entering when another process has it, and says which.
    """

    def __init__(self, journal: str | os.PathLike[str]) -> None:
        """Name the journal, by whatever path; the lock is a hidden file next to the file that it leads to."""
        self.journal = real_path(journal)
        self.path = hidden_sibling(self.journal, "lease")
        self._handle: int | None = None

    def __enter__(self) -> Self:
        handle = self._locked()
        try:
            self._sign(handle)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        _HELD.add(self)
        return self

    def check(self) -> None:
        """Raise LeaseError unless this is still the lock that every other process would find.

        Costs two looks at the file system, so it can be called before every step.
        """
        if self._handle is None or not _is_at(self.path, self._handle):
            raise self._displaced()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def _locked(self) -> int:
        """Return a handle of the lock, which was still in its place after it was locked."""
        for _ in range(TRIES):
            handle = self._opened()
            try:
                self._lock(handle)
            except BaseException:
                os.close(handle)
                raise
            if _is_at(self.path, handle):
                return handle
            os.close(handle)
        raise self._displaced()

    def _displaced(self) -> LeaseError:
        return LeaseError(
            f"{self.path}: the lock of the journal must stay as it is while a controller has it, got none or "
            f"another there, so another controller may be running; stop all controllers of {self.journal}, "
            "then start one"
        )

    def _opened(self) -> int:
        try:
            make_private_folder(self.path.parent)
            # Python opens files so that a started program does not inherit them, and with them the lock.
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        except OSError as error:
            raise FileError(
                f"its folder must be writable, got: {error.strerror}; name another with --journal",
                path=self.journal,
            ) from error

    def _lock(self, handle: int) -> None:
        import fcntl

        for left in reversed(range(TRIES)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if not left:
                    raise LeaseError(
                        f"{self.journal}: there must be one controller at a time, but this journal already "
                        f"has a controller: {_holder(handle)}; stop it, or give another journal with "
                        "--journal"
                    ) from error
                time.sleep(PAUSE_S)
            except OSError as error:
                raise FileError(
                    f"must be where files can be locked, got: {error.strerror}; name another with --journal",
                    path=self.journal,
                ) from error

    def _sign(self, handle: int) -> None:
        since = now_utc().isoformat(timespec="seconds")
        note = {"pid": os.getpid(), "host": platform.node(), "since": since}
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(note).encode(), 0)
        except OSError as error:
            raise BackendError(
                f"{self.path}: the disk must accept the name of the controller, got: {error.strerror}; "
                "check the disk and try again"
            ) from error

    def _let_go(self) -> None:
        _HELD.discard(self)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_held(journal: str | os.PathLike[str]) -> bool:
    """Whether some process has the lease of a journal, however long it has been silent."""
    import fcntl

    try:
        handle = os.open(JournalLease(journal).path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False  # no controller ever had it
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _is_at(path: Path, handle: int) -> bool:
    try:
        there = os.lstat(path)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(handle))


def _holder(handle: int) -> str:
    try:
        note = json.loads(os.pread(handle, NOTE_BYTES, 0))
        return f"pid {note['pid']} on {note['host']} since {note['since']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "one that has not written its name yet"  # between its lock and its note


_HELD: weakref.WeakSet[JournalLease] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    # A forked child shares the lock; it would keep it after its parent's death.
    for lease in list(_HELD):
        lease._let_go()


os.register_at_fork(after_in_child=_leave_to_the_parent)
