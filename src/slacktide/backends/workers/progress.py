"""Reads a job's progress from JSON lines that it appends to a file, or by a pattern from what it prints.

A job may write any amount of anything, while the process that reads it has other jobs to watch. So each poll
reads a limited part of what is new, parses a limited number of lines and keeps a limited number of metrics.
In the part that it skips it only searches for the last line that says how much is done.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from slacktide.backends.workers.job_folder import open_plain_file
from slacktide.core.types import SavedEvidence

LONGEST_LINE_BYTES = 1 << 16  # longer lines are not read
AT_MOST_BYTES = 1 << 20  # how much is read at a poll: if more was added, only the end of it
AT_MOST_LINES = 1000  # how many lines are parsed at a poll: if there are more, only the last ones
SEARCHED_BYTES = 1 << 26  # how far back the skipped part is searched for the last report
TRIES = 100  # how many of its lines that look like a report are parsed
MOST_METRICS = 64
LONGEST_NAME = 64
UNREAD = "unread_lines"  # the metric that counts lines that could not be read

_DONE = b'"done"'
_BROKEN = (ValueError, TypeError, OverflowError, RecursionError)  # what parsing a broken line may raise


class ReportedProgress(NamedTuple):
    """The last report."""

    done_share: float = 0.0
    checkpointed_share: float = 0.0  # the work that a worker killed without notice would not lose
    metrics: Mapping[str, float] = {}
    reports: int = 0  # how many lines reported how much is done, as far as they were read
    saved: SavedEvidence = "said"  # how the checkpointed share is known


class Follower(ABC):
    """Follows a file that a job writes, and knows when the job last reported, and when progress last grew."""

    def __init__(self, progress: ReportedProgress) -> None:
        self.progress = progress
        self.grown_at = -math.inf
        """When progress last exceeded all that was reported before in this attempt, on the caller's clock."""
        self.reported_at: float | None = None
        """When a report of how much is done was last found; None: never."""
        self._most_share = -1.0

    @abstractmethod
    def _read_on(self) -> None:
        """Take in what was added; raises OSError."""

    def poll(self, now: float) -> None:
        """Read what was added; a last line without its newline is kept for the next poll."""
        reports = self.progress.reports
        try:
            self._read_on()
        except OSError:  # it is missing, or the job made it unreadable
            return
        if self.progress.reports > reports:
            self.reported_at = now
            if self.progress.done_share > self._most_share:
                self.grown_at, self._most_share = now, self.progress.done_share

    def begin_anew(self) -> None:
        """Expect a new set of workers, which may have to repeat work and so report less at first."""
        self._most_share = -1.0

    def catch_up(self, path: Path, now: float) -> None:
        """Read what was written before we started, dated by the file: our start is no sign of progress."""
        try:
            silent_s = max(0.0, time.time() - path.stat().st_mtime)
        except OSError:
            return
        reports = self.progress.reports
        self.poll(now)
        if self.progress.reports > reports:
            self.grown_at = self.reported_at = now - silent_s


class Tail(Follower):
    """Follows a progress file as it grows; a new or shortened file is read from its beginning."""

    def __init__(self, path: Path, now: float) -> None:
        super().__init__(ReportedProgress())
        self.path = path
        self.broken_lines = 0
        """How many lines could not be parsed or were skipped; a part that is skipped whole counts as one
        line."""
        self.behind = False  # whether more of the file remains to be read
        self._inode = 0
        self._offset = 0
        self._rest = b""
        self._inside = False  # whether the next bytes belong to a line that is skipped
        self.catch_up(path, now)

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics that the job reports and, if lines could not be read, their number."""
        if not self.broken_lines:
            return self.progress.metrics
        return {**self.progress.metrics, UNREAD: float(self.broken_lines)}

    def _read_on(self) -> None:
        state = self.path.stat()
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._inode, self._offset, self._rest, self._inside = state.st_ino, 0, b"", False
        if state.st_size == self._offset:
            return
        with self.path.open("rb", buffering=0) as file:
            if state.st_size - self._offset > AT_MOST_BYTES:
                self._skip(file.fileno(), state.st_size - AT_MOST_BYTES)
            added = os.pread(file.fileno(), AT_MOST_BYTES, self._offset)
        self._offset += len(added)
        self.behind = self._offset < state.st_size
        self._take_in(added)

    def _skip(self, handle: int, to: int) -> None:
        """Skip ahead to byte `to`, perhaps in the middle of a line, and take the last report before it."""
        begin = self._offset - len(self._rest)
        self._take(last_report(handle, max(begin, to - SEARCHED_BYTES), to + LONGEST_LINE_BYTES))
        self.broken_lines += 1
        self._offset, self._rest, self._inside = to, b"", True

    def _take_in(self, added: bytes) -> None:
        if self._inside:
            end = added.find(b"\n")
            if end < 0:
                return
            added, self._inside = added[end + 1 :], False
        *lines, self._rest = (self._rest + added).split(b"\n")
        if len(self._rest) > LONGEST_LINE_BYTES:
            self._rest, self._inside = b"", True
            self.broken_lines += 1
        passed, taken = lines[:-AT_MOST_LINES], lines[-AT_MOST_LINES:]
        self.broken_lines += len(passed)
        self._take([*_last_of(reversed(passed)), *taken])

    def _take(self, lines: Iterable[bytes]) -> None:
        for line in filter(None, map(bytes.strip, lines)):
            try:
                self.progress = parse_report(line, self.progress)
            except _BROKEN:
                self.broken_lines += 1


def last_report(handle: int, begin: int, end: int) -> list[bytes]:
    """Return the last whole line between two bytes of a file that says how much is done, if any does."""
    tries = TRIES
    while end > begin and tries > 0:
        # A line may cross the border between two parts, so parts overlap by the length of the longest line.
        start = max(begin, end - AT_MOST_BYTES - LONGEST_LINE_BYTES)
        *lines, _ = os.pread(handle, end - start, start).split(b"\n")
        likely = [line for line in lines if _DONE in line]
        found = _last_of(reversed(likely[-tries:]))
        if found:
            return found
        tries -= len(likely)
        end = start + LONGEST_LINE_BYTES if start > begin else begin
    return []


def _last_of(lines: Iterable[bytes]) -> list[bytes]:
    """Return the first line, in the order given, that says how much is done; at most TRIES are parsed."""
    likely = (line for line in lines if _DONE in line and len(line) <= LONGEST_LINE_BYTES)
    for line in islice(likely, TRIES):
        with suppress(*_BROKEN):
            if parse_report(line, ReportedProgress()).reports:
                return [line]
    return []


def parse_report(line: bytes, before: ReportedProgress) -> ReportedProgress:
    """Return a report updated by a line; raises ValueError or TypeError if the line is broken.

    A line without `done` only brings metrics. Shares are clipped to [0, 1]; metrics that are not finite
    numbers, have long names or exceed the number that is kept are left out.
    """
    if len(line) > LONGEST_LINE_BYTES:
        raise ValueError("a line must not be longer than the limit for reading")
    fact = json.loads(line)
    if not isinstance(fact, dict) or not isinstance(fact.get("metrics", {}), dict):
        raise TypeError("a line must be an object, and its metrics too")
    metrics = _with(before.metrics, fact.get("metrics", {}))
    if "done" not in fact:
        return before._replace(metrics=metrics)
    done = _share(fact["done"])
    saved: SavedEvidence = "said" if "checkpointed" in fact else "assumed"
    safe = min(done, _share(fact.get("checkpointed", done)))
    return ReportedProgress(done, safe, metrics, before.reports + 1, saved)


def _with(known: Mapping[str, float], reported: Mapping[str, object]) -> Mapping[str, float]:
    """Return the metrics updated with a report's, of which no more than MOST_METRICS are kept."""
    metrics = dict(known)
    for name, value in reported.items():
        has_room = name in metrics or len(metrics) < MOST_METRICS
        if _is_number(value) and len(name) <= LONGEST_NAME and has_room:
            metrics[name] = float(value)  # type: ignore[arg-type]
    return metrics


def _share(value: object) -> float:
    if not _is_number(value):
        raise ValueError("a share must be a finite number")
    return min(1.0, max(0.0, float(value)))  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


PRINTED_BYTES = 1 << 18  # how much is read at a poll: if more was added, only the end of it
PRINTED_LINES = 500  # how many lines are searched at a poll: the last ones
PRINTED_LINE_BYTES = 200  # of longer lines only the beginning is searched
SLOW_S = 0.25  # a pattern that takes longer than this at one poll is given up

_END = re.compile(rb"[\r\n]+")


class PrintedProgress(Follower):
    """Follows what rank 0 of a job prints, from attempt to attempt."""

    def __init__(self, pattern: str) -> None:
        super().__init__(ReportedProgress(saved="unknown"))
        self.pattern = pattern
        self.given_up = False  # whether the pattern took too long
        self._search = re.compile(pattern.encode()).search
        self._path: Path | None = None
        self._offset = 0
        self._rest = b""

    def follow(self, path: Path, now: float) -> None:
        """Switch to the log at this path, if it is another; what it already holds is dated by the file."""
        if path == self._path:
            return
        self._path, self._offset, self._rest = path, 0, b""
        self.begin_anew()
        self.catch_up(path, now)

    def _read_on(self) -> None:
        if self._path is None or self.given_up:
            return
        *lines, self._rest = _END.split(self._rest + self._added(self._path))
        self._rest = self._rest[:PRINTED_LINE_BYTES]
        share = self._last_share(lines[-PRINTED_LINES:])
        if share is not None:
            self.progress = self.progress._replace(done_share=share, reports=self.progress.reports + 1)

    def _added(self, path: Path) -> bytes:
        with open(path, "rb", buffering=0, opener=open_plain_file) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self._offset:
                self._offset, self._rest = 0, b""
            if size - self._offset > PRINTED_BYTES:
                self._offset, self._rest = size - PRINTED_BYTES, b""
            added = os.pread(file.fileno(), PRINTED_BYTES, self._offset)
        self._offset += len(added)
        return added

    def _last_share(self, lines: list[bytes]) -> float | None:
        began = time.monotonic()
        for line in reversed(lines):
            short = line[:PRINTED_LINE_BYTES]
            found = self._search(short)
            if time.monotonic() - began > SLOW_S:
                self.given_up, self.reported_at, self.progress = True, None, ReportedProgress(saved="unknown")
                return None
            share = None if found is None else share_of(found, short)
            if share is not None:
                return share
        return None


def share_of(found: re.Match[bytes], line: bytes) -> float | None:
    """Return the share of the work that a match contains; None if it is not a valid one.

    Two groups are done and total. A single one is a percentage if a % follows or it is above 1, else a share.
    """
    try:
        numbers = [float(group) for group in found.groups()]
    except (TypeError, ValueError):
        return None
    if len(numbers) == 2:
        share = numbers[0] / numbers[1] if numbers[1] > 0 else math.nan
    else:
        per_cent = numbers[0] > 1 or line[found.end(1) :].lstrip().startswith(b"%")
        share = numbers[0] / 100 if per_cent else numbers[0]
    return min(1.0, share) if math.isfinite(share) and share >= 0 else None
