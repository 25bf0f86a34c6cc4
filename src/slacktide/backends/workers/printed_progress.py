"""Progress read from what a job prints, by a pattern: for scripts that know nothing of us.

Only the last match counts, so a look searches new lines from the last one back and stops at the first that
matches. Bytes, lines and their length are bounded, and a pattern that takes long all the same is given up:
the process that watches this job has other jobs to look after.
"""

from __future__ import annotations

import math
import os
import re
import time
from pathlib import Path

from slacktide.backends.workers.progress import Follower, ReportedProgress

AT_MOST_BYTES = 1 << 18  # how much of what was added is read at a look; of more than this only the end
AT_MOST_LINES = 500  # how many lines are searched at a look
LONGEST_LINE_BYTES = 200  # of longer lines only the beginning is searched
SLOW_S = 0.25  # a pattern that takes longer than this at one look is not tried again

_END = re.compile(rb"[\r\n]+")


class PrintedProgress(Follower):
    """Follows what rank 0 of a job prints, from attempt to attempt."""

    def __init__(self, pattern: str) -> None:
        super().__init__(ReportedProgress(saved="unknown"))
        self.pattern = pattern
        self.given_up = False
        """Whether the pattern took too long."""
        self._search = re.compile(pattern.encode()).search
        self._path: Path | None = None
        self._offset = 0
        self._rest = b""

    def follow(self, path: Path, now: float) -> None:
        """Read on in the log of another attempt, if it is another; what is there already is dated by it."""
        if path == self._path:
            return
        self._path, self._offset, self._rest = path, 0, b""
        self.begin_anew()
        self.catch_up(path, now)

    def _read_on(self) -> None:
        if self._path is None or self.given_up:
            return
        *lines, self._rest = _END.split(self._rest + self._added(self._path))
        self._rest = self._rest[:LONGEST_LINE_BYTES]
        share = self._last_share(lines[-AT_MOST_LINES:])
        if share is not None:
            self.progress = self.progress._replace(done_share=share, reports=self.progress.reports + 1)

    def _added(self, path: Path) -> bytes:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            size = os.fstat(handle).st_size
            if size < self._offset:
                self._offset, self._rest = 0, b""
            if size - self._offset > AT_MOST_BYTES:
                self._offset, self._rest = size - AT_MOST_BYTES, b""
            added = os.pread(handle, AT_MOST_BYTES, self._offset)
        finally:
            os.close(handle)
        self._offset += len(added)
        return added

    def _last_share(self, lines: list[bytes]) -> float | None:
        began = time.monotonic()
        for line in reversed(lines):
            short = line[:LONGEST_LINE_BYTES]
            found = self._search(short)
            if time.monotonic() - began > SLOW_S:
                self._give_up()
                return None
            share = None if found is None else share_of(found, short)
            if share is not None:
                return share
        return None

    def _give_up(self) -> None:
        self.given_up, self.said_at, self.progress = True, None, ReportedProgress(saved="unknown")


def share_of(found: re.Match[bytes], line: bytes) -> float | None:
    """Return the share of the work that a match contains; None where it is no number that can be one.

    Two groups are done and total. One is percent where a % follows or it is above 1, else a share.
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
