"""The learned state on disk: written whole, changed by one process at a time.

A change takes a lock (a file next to the state, locked by the operating system, which releases it when
its holder dies), reads the state, changes it and replaces it. So two processes never lose each other's
jobs, and a reader, which needs no lock, always sees a whole state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slacktide.core.errors import FileError
from slacktide.core.files import (
    PRIVATE_FILE,
    make_private_folder,
    read_at_most,
    state_dir,
    utf8_text,
    write_private,
)

if TYPE_CHECKING:
    from slacktide.policies.selection.hedge import Hedge

PATIENCE_S = 30.0  # a change takes milliseconds; a process that holds the lock for longer is stuck
PAUSE_S = 0.01
MAX_BYTES = 64 << 20  # the largest state that is read; one of a thousand arms has a few hundred kilobytes


def default_path() -> Path:
    """Return where the state is kept unless another place is named."""
    return state_dir() / "learn.json"


def load(path: Path) -> Hedge | None:
    """Read the state, or None when nothing was learned yet; raises FileError for any other file."""
    from slacktide.policies.selection.document import from_json

    try:
        data = read_at_most(path, MAX_BYTES, f"{MAX_BYTES >> 20} MiB")
    except FileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    return from_json(utf8_text(data, path), path)


def save(hedge: Hedge, path: Path) -> None:
    """Write the state whole or not at all."""
    from slacktide.policies.selection.document import to_json

    write_private(path, to_json(hedge).encode())


def forget(path: Path) -> None:
    """Remove the state, after any change that is being made to it."""
    with locked(path):
        path.unlink(missing_ok=True)


class LearnedStateFile:
    """A state on disk that may be changed by several processes, one at a time."""

    def __init__(self, path: Path, fresh: Callable[[], Hedge]) -> None:
        """`fresh` makes the learner to begin with when the file does not exist."""
        self.path = path
        self._fresh = fresh

    def read(self) -> Hedge:
        """Return the state as it is now, or a fresh one."""
        found = load(self.path)
        return self._fresh() if found is None else found

    @contextmanager
    def changing(self) -> Iterator[Hedge]:
        """Lend the state to be changed; it is written back unless the change raised."""
        with locked(self.path):
            hedge = self.read()
            yield hedge
            save(hedge, self.path)


@contextmanager
def locked(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the lock next to a file; raises FileError when another process does not let go of it."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        make_private_folder(path.parent)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    except OSError as error:
        raise FileError(
            f"its folder must be writable, got: {error.strerror}; name another with --state", path=path
        ) from error
    try:
        _wait(handle, lock, time.monotonic() + patience_s)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, lock: Path, until: float) -> None:
    import fcntl

    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise FileError(
                    "the lock must be free, got a process that holds it; stop that process", path=lock
                ) from error
            time.sleep(PAUSE_S)
