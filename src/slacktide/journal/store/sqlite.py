"""The journal on disk: one SQLite file that several processes may read and add to at once.

Every append is one transaction that is on the disk when it returns (write-ahead log, synchronous=FULL); one
that was cut off, by kill -9 or a power cut, is as if it had never begun.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

from slacktide.core.errors import BackendError, FileError, InputError, SlacktideError
from slacktide.journal.codec.codec import from_tree, is_before, parse, plain, sealed, text, unsealed
from slacktide.journal.codec.old_journals import OldJournal
from slacktide.journal.events import Event, Record
from slacktide.journal.store.base import Clock, Snapshot, Store, now_utc
from slacktide.journal.store.database import SNAPSHOTS, connected, opened, transaction, translated_errors
from slacktide.journal.store.paths import ANOTHER, real_path

PATIENCE_S = 30.0  # an append takes milliseconds; a process that locks the journal for longer is stuck
PAGE_EVENTS = 1000
"""Events fetched at a time: a slow reader must not keep SQLite's log from being written back."""
FIRST_EVENTS = 125
"""Events in the first fetch, which may be all that a reader needs; each further one is twice as large."""

Row: TypeAlias = tuple[int, str, str]  # an event as it is written: its number, its time and its JSON

INSERT = "INSERT INTO events (time_utc, job, kind, actor, at_hours, why, data) VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_SNAPSHOT = "INSERT INTO snapshots (seq, form, body) VALUES (?, ?, ?)"
SELECT_SNAPSHOT = "SELECT seq, form, body FROM snapshots WHERE form = ? ORDER BY seq DESC LIMIT 1"
SELECT = "SELECT seq, time_utc, data FROM events WHERE seq > ? AND seq <= ?"


Found = TypeVar("Found")


def read_if_intact(path: Path | None, read: Callable[[Store], Found]) -> Found | None:
    """Return what `read` returns for a journal; None if there is none or it cannot be used."""
    if path is None or not real_path(path).exists():
        return None
    try:
        with SqliteStore(path, create=False) as store:
            return read(store)
    except SlacktideError:
        return None


class SqliteStore(Store):
    """Keeps events in a SQLite file.

    May be used from several threads; a forked process must open its own. Raises FileError when the file is
    something else, of a newer version, damaged or not writable, and never changes such a file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        clock: Clock = now_utc,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Open a journal; where there is none, make one with its folder if `create`."""
        self.path = real_path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._patience_s = patience_s
        self._database = opened(self.path, create, patience_s)
        self._watch = FileGuard(self.path)
        self._last: Row = (0, "", "")
        """The last event that is known to be in the journal."""

    def append(self, events: Iterable[Event]) -> list[Record]:
        """Write all of these or none; when it returns they are on the disk."""
        kept = [plain(event) for event in events]  # what cannot be read back is not written
        if not kept:
            return []
        with self._lock, translated_errors(self.path):
            self._watch.look(self._is_whole)
            with transaction(self._database):
                # Read inside the transaction, so that times grow with the numbers, whichever process writes.
                now = self._clock().astimezone(UTC)
                # Fixed width, so that times sort as texts.
                stamp = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
                rows = [self._insert(stamp, event) for event in kept]
            self._last = rows[-1]
            self._watch.remember()
        return [Record(row[0], now, event) for row, event in zip(rows, kept, strict=True)]

    def read(self, after: int = 0, job: str | None = None) -> Iterator[Record]:
        """Yield what is in the journal when reading begins, in order, from all writers."""
        last, after, before = self.last_seq(), max(after, 0), OldJournal(self._last_of)
        size = FIRST_EVENTS
        while after < last:
            page = self._page(after, last, job, size)
            for row in page:
                if job is None and row[0] != after + 1:
                    raise FileError(
                        f"its events must be numbered without a gap, got {row[0]} after {after}; "
                        f"some were removed: restore a copy, or {ANOTHER}",
                        path=self.path,
                    )
                after, record = row[0], self._record(before, *row)
                if job is None or record.event.job == job:  # the column may spell two odd names alike
                    yield record
            if len(page) < size:
                return
            size = min(2 * size, PAGE_EVENTS)

    def last_seq(self) -> int:
        """Return the number of the last event; 0 when there is none."""
        with self._lock, translated_errors(self.path):
            self._watch.look(self._is_whole)
            last = self._database.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
        if not isinstance(last, int) or last < self._last[0]:
            raise FileError(
                f"its events must not become fewer, got {last!r:.20} after {self._last[0]}; some were taken "
                f"out: restore a copy, or {ANOTHER}",
                path=self.path,
            )
        return last

    def snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot instead of earlier ones; if that fails, these stay."""
        try:
            with self._lock, translated_errors(self.path):
                self._watch.look(self._is_whole)
                with transaction(self._database):
                    self._database.execute(SNAPSHOTS)
                    self._database.execute("DELETE FROM snapshots")
                    self._database.execute(INSERT_SNAPSHOT, snapshot)
        except SlacktideError:
            return  # a cache: the events say the same, and the next append reports the trouble

    def latest(self, form: str) -> Snapshot | None:
        """Return the snapshot of this form; None where there is none or it cannot be read."""
        try:
            with self._lock, translated_errors(self.path):
                row = self._database.execute(SELECT_SNAPSHOT, (form,)).fetchone()
        except SlacktideError:
            return None  # an older journal has no such table; any worse trouble shows when events are read
        return None if row is None else Snapshot(*row)

    def close(self) -> None:
        """Close the journal; closing twice does no harm."""
        with self._lock:
            self._database.close()

    def _insert(self, stamp: str, event: Event) -> Row:
        kind, why, line = type(event).__name__, _printable(event.why), sealed(stamp, text(event))
        row = (stamp, _printable(event.job), kind, event.actor, event.at_hours, why, line)
        seq = self._database.execute(INSERT, row).lastrowid
        assert seq is not None
        return seq, stamp, line

    def _page(self, after: int, last: int, job: str | None, size: int) -> list[Row]:
        wanted = "" if job is None else " AND job = ?"
        values = (after, last) if job is None else (after, last, _printable(job))
        with self._lock, translated_errors(self.path):
            page: list[Row] = self._database.execute(
                f"{SELECT}{wanted} ORDER BY seq LIMIT {size}", values
            ).fetchall()
        if page and page[-1][0] > self._last[0]:
            self._last = page[-1]
        return page

    def _is_whole(self, shorter: bool) -> bool:
        """Whether the last known event is on the disk and, in a shorter file, every page is intact."""
        with closing(connected(self.path, False, self._patience_s)) as fresh:
            if shorter and fresh.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return False
            found = fresh.execute(SELECT, (self._last[0] - 1, self._last[0])).fetchone()
            return self._last[0] == 0 or found == self._last

    def _record(self, before: OldJournal, seq: int, stamp: str, line: str) -> Record:
        try:
            if not (isinstance(stamp, str) and isinstance(line, str)):
                raise InputError(
                    "an event must be JSON and its time text, got something else: it was damaged"
                )
            time, tree = _time(stamp), unsealed(stamp, line, parse(line))
            tree = before.today(seq, tree) if is_before(tree) else tree
            return Record(seq, time, from_tree(tree))
        except InputError as error:
            raise FileError(f"event {seq}: {error}", path=self.path) from error

    def _last_of(self, job: str, kind: str, before: int) -> dict[str, Any] | None:
        """Return the last event of a job and kind before a number, as it is written."""
        query = "SELECT data FROM events WHERE job = ? AND kind = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
        with self._lock, translated_errors(self.path):
            row = self._database.execute(query, (_printable(job), kind, before)).fetchone()
        return None if row is None else parse(row[0])


def _time(stamp: str) -> datetime:
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        raise InputError(f"its time must be such as 2025-10-04T00:10:00Z, got {stamp!r:.60}") from None


def _printable(words: str) -> str:
    """Return a text that SQLite can hold; bytes of a path that are not text become escapes."""
    return words if words.isascii() else words.encode("utf-8", "backslashreplace").decode("utf-8")


SMALLEST_BYTES = 512  # a file of SQLite has one page at least


class _Seen(NamedTuple):
    device: int
    inode: int
    size_bytes: int
    written_ns: int

    @property
    def identity(self) -> tuple[int, int]:
        """Which file it is, whatever it is called."""
        return self.device, self.inode


class FileGuard:
    """Notices when a journal or its log was moved, replaced or cut short while it is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._file, self._log_seen = _seen(path), _seen(self._log)

    def look(self, is_whole: Callable[[bool], bool]) -> None:
        """Raise BackendError if the journal is not in its place, and FileError if some of it was lost.

        `is_whole` reads the file again and returns whether everything known to be written is there; its
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
