"""The lease of a machine's workers: how long they may go on after their controller last received an answer.

When the lease runs out, the agent ends them. In case the agent has died and is not started again, a guard
process watches the same note and ends them a little later, so that a machine that is cut off runs no worker
any more when a controller begins the same job elsewhere (after the lease and CONTROLLER_WAITS_S).
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from slacktide.backends import process_table
from slacktide.backends.workers.job_folder import read_text
from slacktide.core import machine_clock as boot

WATCH_S = 0.2
GUARD_WAITS_S = 1.5  # how much longer than the agent the guard process waits
CONTROLLER_WAITS_S = 3.0
"""How much longer than the lease a controller waits before it counts a machine's workers as ended."""
RESPAWN_S = 5.0


class AgentLease:
    """The note of when a controller last received an answer, and the guard process that watches it."""

    def __init__(self, root: Path, owner: str, seconds: float) -> None:
        self._root, self._owner, self.seconds = root, owner, seconds
        self._guard: subprocess.Popen[bytes] | None = None
        self._guarded_s = -RESPAWN_S

    def renew(self, ago_s: float = 0.0) -> None:
        """Note how long ago a controller received an answer; on a full disk the old note stays."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._root / ".lease"
        try:
            note = f"{boot.seconds() - ago_s} {boot.boot_id()} {self.seconds:g}\n"
            draft.write_text(note, encoding="ascii")
            os.replace(draft, self._root / "lease")
        except OSError:
            return  # the old note stays: then the workers end too early rather than too late
        self._see_guarded()

    def _see_guarded(self) -> None:
        """Start the guard process if ours does not run; if another one already watches, ours ends at once."""
        now_s = boot.seconds()
        running = self._guard is not None and self._guard.poll() is None
        if running or now_s - self._guarded_s < RESPAWN_S:
            return
        self._guarded_s = now_s
        command = [sys.executable, "-m", __name__, str(self._root), self._owner, f"{self.seconds:g}"]
        self._guard = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip


def overdue_s(root: Path, seconds: float) -> float:
    """Return how long ago a lease ran out; negative while it holds, infinite if no note can be read.

    `seconds` is its length if the note has none; a later controller may have set another length.
    """
    try:
        noted_s, boot_id, *length = read_text(root / "lease").split()
        spoken_s = float(noted_s) if boot_id == boot.boot_id() else -float("inf")
        return boot.seconds() - spoken_s - (float(length[0]) if length else seconds)
    except (OSError, ValueError):
        return float("inf")


def end_all(owner: str) -> int:
    """Kill every process of an owner's workers on this machine, and say how many there were."""
    found = [seen for seen in process_table.scan() if (seen.marker or "").split("/")[0] == owner]
    for seen in found:
        process_table.send(seen.process, signal.SIGKILL)
    return len(found)


def guard(root: Path, owner: str, seconds: float) -> None:
    """Watch the lease, end the workers when it has run out, and return once none is left.

    It returns at once if another guard has locked the folder, or if the folder is gone.
    """
    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    while overdue_s(root, seconds) < GUARD_WAITS_S or end_all(owner):
        time.sleep(WATCH_S)


if __name__ == "__main__":
    guard(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
