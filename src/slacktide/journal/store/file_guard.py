"""Checks that an open journal is still the same file: not moved, not truncated, not replaced.

SQLite itself does not notice: it goes on with what it has in memory, and writes to a file that no reader
will ever find again. So before every use two cheap looks at the file system compare what is there with what
was there; only where something changed that SQLite does not change every day is the file read anew, from the
disk, for the last event that is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

from slacktide.core.errors import BackendError, FileError

SMALLEST_BYTES = 512  # a file of SQLite has one page at least


class _Seen(NamedTuple):
    """A file at a moment."""

    device: int
    inode: int
    size_bytes: int
    written_ns: int

    @property
    def identity(self) -> tuple[int, int]:
        """Which file it is, whatever it is called."""
        return self.device, self.inode


class FileGuard:
    """Remembers how a journal and its log looked last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._file, self._log_seen = _seen(path), _seen(self._log)

    def look(self, is_whole: Callable[[bool], bool]) -> None:
        """Raise BackendError where the journal is not in its place, and FileError where some of it was lost.

        `is_whole` reads the file anew and says whether what is known to have been written stands there; its
        argument is whether the file became shorter.
        """
        file, log = _seen(self._path), _seen(self._log)
        if file is None or self._file is None or file.identity != self._file.identity:
            raise BackendError(
                f"{self._path}: the journal must stay where it is while it is open, got none or another "
                "there; put it back and start again"
            )
        if file.size_bytes < SMALLEST_BYTES:
            self._lost("an empty file")
        if self._log_seen is not None and (log is None or log.identity != self._log_seen.identity):
            self._lost(f"no {self._log.name}, or another, although it had events")
        # SQLite writes into the file now and then, and shortens both only on a user's request.
        shorter = file.size_bytes < self._file.size_bytes or _length(log) < _length(self._log_seen)
        if (shorter or file != self._file) and not is_whole(shorter):
            self._lost("a file without events that were written to it")
        self._file, self._log_seen = file, log

    def remember(self) -> None:
        """Remember how both look after this process has written to them."""
        file, log = _seen(self._path), _seen(self._log)
        if file is not None and self._file is not None and file.identity == self._file.identity:
            self._file, self._log_seen = file, log or self._log_seen

    def _lost(self, got: str) -> NoReturn:
        raise FileError(
            f"the journal must stay whole while it is open, got {got}: it was cut short or replaced; "
            "stop the processes that use it, and restore a copy",
            path=self._path,
        )


def _length(seen: _Seen | None) -> int:
    return 0 if seen is None else seen.size_bytes


def _seen(path: Path) -> _Seen | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _Seen(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
