"""The few lines of shell that stand between a worker and a controller that may die at any moment.

A worker says itself that it is there, before it runs anything of the user's, and how it ended. A controller
that dies after a fork and before any note of its own therefore loses no one: the next one reads the notes.
Notes are whole lines: what does not end in a newline is not there yet.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from slacktide.backend.local.kin import as_subreaper

SCRIPT = r"""
stem=$1 stop=$2 workdir=$3 shell=$4 run=$5
# A trap with a command in it is not handed down: the user's command sees the signals as they are, while
# this shell outlives them to write down how the command ended.
trap : TERM INT HUP
set -f
if { IFS= read -r line <"/proc/$$/stat"; } 2>/dev/null; then
  { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || boot=
  set -- ${line##*) }
  started="${20} $boot"
else
  set -- $(LC_ALL=C TZ=UTC0 ps -o lstart= -p $$)
  started="$*"
fi
# Only one may ever be this rank of this attempt: the file must not be there yet.
set -C
printf '%s %s\n' "$$" "$started" >"$stem.pid" || exit 125
set +C
# Whoever wants the attempt to end makes the stop file before it signals. So either the command is not begun
# here, or it is already there to get the signal.
(
  [ ! -e "$stop" ] || exit 143
  cd -- "$workdir" || exit 126
  exec "$shell" -c "$run"
)
status=$?
# Orphans of the command are below this shell (kin.py), and nowhere once it has ended: they are written down.
left=
{ read -r left <"/proc/$$/task/$$/children"; } 2>/dev/null
for pid in $left; do
  { read -r line <"/proc/$pid/stat"; } 2>/dev/null || continue
  set -- ${line##*) }
  printf '%s %s\n' "$pid" "${20} $boot" >>"$stem.left"
done
printf '%s\n' "$status" >"$stem.exit"
exit "$status"
"""

_SH = "/bin/sh"
_DEFAULT_SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGCHLD,
)
"""What a controller may ignore and its workers must not."""


def spawn(stem: Path, stop: Path, log: Path, workdir: Path, run: str, environ: Mapping[str, str]) -> int:
    """Start a supervised command in a session of its own and return the supervisor's pid.

    Names, paths and texts travel as arguments, never inside shell text. Raises OSError when the system
    cannot start it.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        texts = [str(stem), str(stop), str(workdir), _shell(), run]
        command = as_subreaper([_SH, "-c", SCRIPT, "slacktide-worker", *texts])
        return os.posix_spawn(
            command[0],
            command,
            environ,
            file_actions=_files(output),
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    finally:
        os.close(output)


def exit_code(status: int) -> int:
    """Return a status as a shell tells it (128 and the signal) in our words: minus the signal."""
    return 128 - status if 128 < status <= 128 + 64 else status


def _shell() -> str:
    """Return bash where it is, as users of SkyPilot expect, else the system's shell."""
    return shutil.which("bash") or _SH


def _files(output: int) -> Sequence[tuple[int, ...] | tuple[int, int, str, int, int]]:
    """Say what a new process has open: nothing to read, the log to write, and not one file of ours."""
    standard: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    return standard + [(os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()]


def _inheritable() -> list[int]:
    """Return our open files that a new process would get: what Python opens is none of them."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    return [number for number in map(int, os.listdir(folder)) if number > 2 and _handed_down(number)]


def _handed_down(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # the folder's own handle, closed by now
        return False
