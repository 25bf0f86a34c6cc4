"""What a job says of itself: lines of JSON that it appends to a file."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

AT_MOST_BYTES = 1 << 22
"""How much is read at a time, so that no look takes long; the rest waits for the next."""


class Progress(NamedTuple):
    """The last that was said."""

    done_share: float = 0.0
    checkpointed_share: float = 0.0
    """The work that a worker killed without notice would not lose."""
    metrics: Mapping[str, float] = {}
    reports: int = 0
    """How many lines told how much is done."""


class Tail:
    """Follows a progress file as it grows; a new or shortened file is read from its beginning."""

    def __init__(self, path: Path, now: float) -> None:
        self.path = path
        self.progress = Progress()
        self.broken_lines = 0
        self.grown_at = -math.inf
        """When the file was last found longer, on the caller's clock."""
        self.said_at: float | None = None
        """When it was last found to say how much is done; None while it never has."""
        self.behind = False
        """Whether the file was longer than what was read of it."""
        self._inode = 0
        self._offset = 0
        self._rest = b""
        self._catch_up(now)

    def poll(self, now: float) -> None:
        """Read what was added; a last line without its end waits for it."""
        added = self._read()
        if not added:
            return
        self.grown_at, before = now, self.progress.reports
        *lines, self._rest = (self._rest + added).split(b"\n")
        for line in filter(None, map(bytes.strip, lines)):
            self._take(line)
        if len(self._rest) > AT_MOST_BYTES:
            self._rest = b""
            self.broken_lines += 1
        if self.progress.reports > before:
            self.said_at = now

    def _catch_up(self, now: float) -> None:
        """Read what was there before us, and date it by the file: a restart is no sign of life."""
        try:
            silent_s = max(0.0, time.time() - self.path.stat().st_mtime)
        except OSError:
            return
        self.poll(now)
        self.grown_at = now - silent_s
        self.said_at = None if self.said_at is None else self.grown_at

    def _read(self) -> bytes:
        """Return what was added; nothing while the file is missing or the job keeps it from being read."""
        try:
            return self._read_on(self.path.stat())
        except OSError:
            return b""

    def _read_on(self, state: os.stat_result) -> bytes:
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._inode, self._offset, self._rest = state.st_ino, 0, b""
        if state.st_size == self._offset:
            return b""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            added = file.read(AT_MOST_BYTES)
        self._offset += len(added)
        self.behind = self._offset < state.st_size
        return added

    def _take(self, line: bytes) -> None:
        try:
            self.progress = said(line, self.progress)
        except (ValueError, TypeError, OverflowError, RecursionError):
            self.broken_lines += 1


def said(line: bytes, before: Progress) -> Progress:
    """Return what a line says, on top of what was said before; raises ValueError or TypeError if broken.

    A line without `done` only brings metrics. Shares are clipped to [0, 1]; metrics that are no finite
    numbers are left out.
    """
    fact = json.loads(line)
    if not isinstance(fact, dict) or not isinstance(fact.get("metrics", {}), dict):
        raise TypeError("a line must be an object, and its metrics too")
    fresh = {name: float(value) for name, value in fact.get("metrics", {}).items() if _is_number(value)}
    metrics = {**before.metrics, **fresh}
    if "done" not in fact:
        return before._replace(metrics=metrics)
    done = _share(fact["done"])
    return Progress(done, min(done, _share(fact.get("checkpointed", done))), metrics, before.reports + 1)


def _share(value: object) -> float:
    if not _is_number(value):
        raise ValueError("a share must be a finite number")
    return min(1.0, max(0.0, float(value)))  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
