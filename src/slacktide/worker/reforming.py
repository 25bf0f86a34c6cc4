"""How a worker goes on in another set without being started again: notes that it and its controller leave.

The notes lie next to each other, under the path in SLACKTIDE_NOTES: `.able` says that this worker can do it,
`.place` is its next place, `.taken` says that it has taken it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 20.0
"""How long a worker waits by default to hear what becomes of it."""
_POLL_SECONDS = 0.005


class Resizing:
    """True once this worker has a place in another set: finish the step, save, and call `reform`."""

    def __init__(self, stop_requested: Callable[[], bool]) -> None:
        self._stop_requested = stop_requested
        self._read: tuple[int, int] | None = None
        """Which note was the last that this worker followed, or that was none of its business."""

    def __bool__(self) -> bool:
        return self._next_place() is not None

    def __repr__(self) -> str:
        return f"<re-forming requested: {bool(self)}>"

    def ready(self) -> bool:
        """Say that this worker can re-form, and is ready to meet the others; False: end, for a stop came.

        To be called once, when all is imported and made that takes time. A worker that is added to others
        waits here: they work on until it is ready, and then all re-form together.
        """
        notes = os.environ.get("SLACKTIDE_NOTES")
        if notes is None:
            return True
        _write(Path(f"{notes}.able"), {"pid": os.getpid()})
        return "SLACKTIDE_ADDED" not in os.environ or self.reform(float("inf"))

    def reform(self, patience_seconds: float = PATIENCE_SECONDS) -> bool:
        """Wait for what becomes of this worker; False: end, a stop was requested, or nothing came in time.

        If True, `rank`, `world_size`, `attempt` and the variables MASTER_ADDR and MASTER_PORT are those of
        its new place, and what it prints goes to the log of that. To be called after a step that all agreed
        to be the last of this set, or when a peer is gone.
        """
        until_s = time.monotonic() + patience_seconds
        while not self._stop_requested() and self._is_able():
            place = self._next_place()
            if place is not None:
                self._take(place)
                return True
            if time.monotonic() >= until_s:
                break
            time.sleep(_POLL_SECONDS)
        return False

    def _is_able(self) -> bool:
        notes = os.environ.get("SLACKTIDE_NOTES")
        return notes is not None and os.path.exists(f"{notes}.able")

    def _next_place(self) -> dict[str, Any] | None:
        """Return the place that this worker received and has not taken."""
        notes = os.environ.get("SLACKTIDE_NOTES")
        if notes is None:
            return None
        try:
            state = os.stat(f"{notes}.place")
            if (state.st_ino, state.st_mtime_ns) == self._read:
                return None
            place: dict[str, Any] = json.loads(Path(f"{notes}.place").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        mine = int(os.environ.get("SLACKTIDE_ATTEMPT") or 0)
        if place["attempt"] > mine or "SLACKTIDE_ADDED" in os.environ:
            return place
        self._read = state.st_ino, state.st_mtime_ns
        return None

    def _take(self, place: dict[str, Any]) -> None:
        """Become the worker of this place, and say so."""
        notes = os.environ["SLACKTIDE_NOTES"]
        _print_to(f"{notes}.log", place["log"])
        os.environ.update(place["variables"])
        os.environ.pop("SLACKTIDE_ADDED", None)
        os.environ["SLACKTIDE_REFORMED"] = "1"
        _write(Path(f"{notes}.taken"), {"attempt": place["attempt"]})


def _print_to(first: str, log: str) -> None:
    """Print to another log from now on, where what is printed goes to a log of ours and not elsewhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(OSError, ValueError):
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            for output in (1, 2):
                if os.path.samestat(os.fstat(output), os.stat(_print_to_now.get(output, first))):
                    os.dup2(handle, output)
                    _print_to_now[output] = log
        finally:
            os.close(handle)


_print_to_now: dict[int, str] = {}
"""The log to which each output goes, where that is not the first one."""


def _write(path: Path, content: dict[str, int]) -> None:
    """Write a note whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
    os.replace(draft, path)
