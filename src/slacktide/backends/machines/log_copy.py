"""What workers print on other machines, copied into the run's folder, so that `logs` finds it there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from slacktide.backends.machines.agent.messages import LogName, LogPart
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers import owned_folders


class LogCopies:
    """Copies of logs, each with how much of the original it covers."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._offsets: dict[LogName, int] = {}

    def offsets(self, names: Iterable[LogName]) -> dict[LogName, int]:
        """Return how many bytes of each log are here, or were left out."""
        return {name: self._offset(name) for name in names}

    def add(self, name: LogName, part: LogPart) -> None:
        """Append a part that continues what is here; what came before is passed over. Raises OSError."""
        known = self._offset(name)
        text, left_out = part.text, part.after - known
        if left_out < 0:
            text = text[-left_out:]
        if not text:
            return
        path = self._path(name)
        owned_folders.make_private(path.parent)
        handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with open(handle, "ab") as file:
            if left_out > 0:
                file.write(f"\n[slacktide: {left_out:,} bytes were left out here]\n".encode())
            file.write(text)
        self._offsets[name] = max(part.after, known) + len(text)
        if left_out > 0 or self._note(name).exists():
            self._note(name).write_text(str(self._offsets[name]), encoding="ascii")

    def restart(self, name: LogName) -> None:
        """Copy a log from its beginning: it is another machine's from now on."""
        for path in (self._path(name), self._note(name)):
            with suppress(OSError):
                path.unlink()
        self._offsets[name] = 0

    def _offset(self, name: LogName) -> int:
        if name not in self._offsets:
            self._offsets[name] = self._on_disk(name)
        return self._offsets[name]

    def _on_disk(self, name: LogName) -> int:
        """Return how far a copy of an earlier controller's goes; a note says so where parts were left out."""
        with suppress(OSError, ValueError):
            return int(owned_folders.read_text(self._note(name)))
        try:
            return self._path(name).stat().st_size
        except OSError:
            return 0

    def _path(self, name: LogName) -> Path:
        job, attempt, rank = name
        home = self._root / job
        return folder.attempt_folder(home, attempt) / f"rank-{rank}.log" if attempt else home / "setup.log"

    def _note(self, name: LogName) -> Path:
        return self._path(name).with_suffix(".offset")
