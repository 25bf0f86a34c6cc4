"""The workers on this machine, found by the variable in their environment, and ways to hurt them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARKER = b"SLACKTIDE_WORKER="
SUPERVISOR = b"slacktide-worker"
"""The name that the shell between a worker and its controller goes by."""


class Process(NamedTuple):
    """A process of a job."""

    pid: int
    session: int
    supervisor: bool
    """Whether it is the shell that watches over a worker, and not the worker."""
    marker: str
    """`owner/job/attempt/rank`."""

    @property
    def job(self) -> str:
        """The job that it is of."""
        return self.marker.split("/")[1] if self.marker.count("/") >= 3 else ""

    @property
    def attempt(self) -> int:
        """The attempt that it is of; 0 for a set-up."""
        part = self.marker.split("/")[2]
        return int(part) if part.isdecimal() else 0

    @property
    def rank(self) -> int:
        """Its number in the attempt."""
        return int(self.marker.split("/")[3])


def lives(process: Process) -> bool:
    """Whether a process is still there, stopped or not."""
    try:
        return not _is_dead(Path(f"/proc/{process.pid}"))
    except OSError:
        return False


def workers(folder: Path) -> list[Process]:
    """Return every living process whose environment has a worker's mark and names a folder."""
    return list(_found(os.fsencode(str(folder))))


def _found(folder: bytes) -> Iterator[Process]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            environ = (entry / "environ").read_bytes()
            if MARKER not in environ or folder not in environ or _is_dead(entry):
                continue
            marker = next(part for part in environ.split(b"\0") if part.startswith(MARKER))
            words = (entry / "cmdline").read_bytes().split(b"\0")
            pid = int(entry.name)
            yield Process(pid, os.getsid(pid), SUPERVISOR in words, marker[len(MARKER) :].decode())


def _is_dead(entry: Path) -> bool:
    stat = (entry / "stat").read_text(encoding="ascii", errors="replace")
    return stat[stat.rindex(")") + 2] in "ZX"


def send(process: Process, number: signal.Signals) -> bool:
    """Signal one process; False when it had gone."""
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def send_session(process: Process, number: signal.Signals) -> bool:
    """Signal a worker with its supervisor and all beside it, as the loss of a machine would."""
    try:
        os.killpg(process.session, number)
    except ProcessLookupError:
        return False
    return True


def end_all(folder: Path) -> None:
    """Kill whatever is left."""
    for process in workers(folder):
        send(process, signal.SIGKILL)
