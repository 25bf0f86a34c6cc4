"""The few lines of shell that stand between a worker and a controller that may die at any moment.

A worker says itself that it is there, before it runs anything of the user's, and how it ended: with which
code, whether it had been requested to stop, and when on the machine's own clock. A controller that dies
after a fork and before any note of its own therefore loses no one: the next one reads the notes. Notes are
whole lines: what does not end in a newline is not there yet.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from slacktide.backends.process_table import as_subreaper

SCRIPT = r"""
# The names are long because the user's variables are exported: one of the same name would be changed.
slacktide_home=$1 slacktide_stem=$2 slacktide_stop=$3 slacktide_workdir=$4 slacktide_shell=$5 slacktide_run=$6
slacktide_stopped=0
# A trap with a command in it is not handed down: the user's command sees the signals as they are, while
# this shell outlives them to write down how the command ended and whether a stop had been requested.
trap 'slacktide_stopped=1' TERM INT HUP
set -f
slacktide_mask=$(umask)
umask 077
# Notes are written by names relative to their folder, so that they find it though it was moved meanwhile.
cd -- "$slacktide_home" || exit 125
{ read -r slacktide_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || slacktide_boot=
if { IFS= read -r slacktide_line <"/proc/$$/stat"; } 2>/dev/null; then
  set -- ${slacktide_line##*) }
  slacktide_started="${20} $slacktide_boot"
else
  set -- $(LC_ALL=C TZ=UTC0 ps -o lstart= -p $$)
  slacktide_started="$*"
fi
# Only one may ever be this rank of this attempt: a note must not be there yet, nor a link in its place.
set -C
printf '%s %s\n' "$$" "$slacktide_started" >"$slacktide_stem.pid" || exit 125
# A controller that ends the attempt makes the stop file before it signals. So either the command is not begun
# here, or it is already there to get the signal.
(
  [ "$slacktide_stopped" = 0 ] && [ ! -e "$slacktide_stop" ] || exit 143
  cd -- "$slacktide_workdir" || exit 126
  umask "$slacktide_mask"
  exec "$slacktide_shell" -c "$slacktide_run"
)
slacktide_status=$?
# A command that SIGHUP, SIGINT or SIGTERM ended was requested to stop, though only it got the signal.
case $slacktide_status in 129 | 130 | 143) slacktide_stopped=1 ;; esac
{ read -r slacktide_uptime slacktide_line </proc/uptime; } 2>/dev/null || slacktide_uptime=
# Orphans of the command are below this shell (process_tree.py), and nowhere once it has ended: note them.
slacktide_left=
{ read -r slacktide_left <"/proc/$$/task/$$/children"; } 2>/dev/null
for slacktide_pid in $slacktide_left; do
  { IFS= read -r slacktide_line <"/proc/$slacktide_pid/stat"; } 2>/dev/null || continue
  set -- ${slacktide_line##*) }
  printf '%s %s\n' "$slacktide_pid" "${20} $slacktide_boot" >>"$slacktide_stem.left"
done
slacktide_line="$slacktide_status $slacktide_stopped $slacktide_uptime $slacktide_boot"
printf '%s\n' "$slacktide_line" >"$slacktide_stem.exit" && exit "$slacktide_status"
# Without a note our own exit code is all that is left, and that a stop was requested matters more than the
# rest.
[ "$slacktide_stopped" = 0 ] || exit 143
exit "$slacktide_status"
"""

STOP_NOTED = 143  # the exit code of a supervisor that was requested to stop and could not write its note

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
    cannot start it. The stop note lies next to the others.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        texts = [str(stem.parent), stem.name, stop.name, str(workdir), _shell(), run]
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
    """Return a status as a shell reports it (128 and the signal) in our form: minus the signal."""
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
