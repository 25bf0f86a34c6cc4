"""One supervised worker process, started by us or found again, and everything that it started.

A controller may die at any moment, so a few lines of shell supervise each worker. They leave a note before
they run the user's command, and another one when it has ended: with which code, whether a stop had been
requested, and when on the machine's own clock. So the next controller finds even a worker whose controller
died right after the fork. Notes are whole lines: one that does not end in a newline is not written yet.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slacktide.backends import process_table
from slacktide.backends.process_table import Process, as_subreaper, left_behind
from slacktide.backends.workers import job_folder as folder
from slacktide.core import machine_clock as boot
from slacktide.journal.events import Capacity

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
# Orphans of the command are below this shell (process_table.py), and nowhere once it has ended: note them.
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
"""Signals that a controller may ignore but its workers must not."""


def spawn(stem: Path, stop: Path, log: Path, workdir: Path, run: str, environ: Mapping[str, str]) -> int:
    """Start a supervised command in a session of its own and return the supervisor's pid.

    Names, paths and commands are passed as arguments, never inside shell text. `stop` must be in the folder
    of `stem`. Raises OSError when the system cannot start it.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        shell = shutil.which("bash") or _SH  # bash where it is, as users of SkyPilot expect
        texts = [str(stem.parent), stem.name, stop.name, str(workdir), shell, run]
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
    """Convert a status as a shell reports it (128 plus the signal) to our form: minus the signal."""
    return 128 - status if 128 < status <= 128 + 64 else status


def _files(output: int) -> Sequence[tuple[int, ...] | tuple[int, int, str, int, int]]:
    """Return which files a new process has open: an empty input, the log as output, and none of ours."""
    standard: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    return standard + [(os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()]


def _inheritable() -> list[int]:
    """Return our open files that a new process would inherit; files that Python opened are not inherited."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    return [number for number in map(int, os.listdir(folder)) if number > 2 and _handed_down(number)]


def _handed_down(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # the folder's own handle, closed by now
        return False


_BOOTED_S = 0.0  # when this boot began, on its own clock
VANISHED = -int(signal.SIGKILL)
"""The exit code of a worker without an exit note: only SIGKILL keeps a supervisor from writing one."""


class Worker:
    """One rank of an attempt: whether it runs, how it ended, and when it will be killed.

    A user's command may end before the processes that it started: a shell dies of SIGTERM at once while the
    training below it still saves. They get the same grace period, and the worker counts as present until they
    have gone.
    """

    def __init__(self, rank: int, kind: Capacity, marker: str, stem: Path) -> None:
        self.rank = rank
        self.kind: Capacity = kind
        self.marker = marker
        self.stem = stem
        self.child: int | None = None
        """Its pid while it is a child of ours that was not waited for: no other process can have this pid."""
        self.process: Process | None = None  # as it registered itself
        self.exit_code: int | None = None
        self.ended_ns = 0  # when it ended by the wall clock, once it has
        self.stop_noted = False
        """Whether its own note says that a stop had been requested, by any sender."""
        self.signaled = False  # whether we signaled it to end while it lived
        self.lost = False
        """Whether it ended without an exit note or our signal, as when its machine is taken."""
        self.gone_s: float | None = None
        """When it and all that it started had gone, on the machine's own clock."""
        self.kill_at = math.inf
        self.leftovers: list[Process] = []
        self.cleared = False  # whether it has ended and none of its processes was found any more
        self._signaled_processes: set[Process] = set()
        self._seen_s: float | None = None
        """When it was last seen alive, on the machine's own clock: its pid's session was its own then."""
        self._ended_s: float | None = None
        self._outlived = False  # whether anything of it was found after its end
        self._below: set[Process] = set()  # every process that was ever found to be its own

    @property
    def awaited(self) -> bool:
        """Nothing is known of it: not started, or started by a controller that died before it registered."""
        return self.child is None and self.process is None and self.exit_code is None

    @property
    def alive(self) -> bool:
        """It lived when last polled."""
        return self.exit_code is None and not self.awaited

    @property
    def present(self) -> bool:
        """It or something that it started lived when last polled."""
        return self.alive or bool(self.leftovers)

    @property
    def failed(self) -> bool:
        """It ended with an error, by its own note, without a request to stop."""
        return bool(self.exit_code) and not (self.signaled or self.stop_noted or self.lost)

    @property
    def dying(self) -> bool:
        """It lived when last polled, but was killed and will not live on."""
        return self.alive and self.pid is not None and process_table.dying(self.pid)

    @property
    def pid(self) -> int | None:
        """The leader of its session and process group."""
        return self.process.pid if self.process else self.child

    def began(self, pid: int) -> None:
        """Remember the pid of the child process that we started for it."""
        self.child = pid
        self._seen_s = boot.seconds()

    def poll(self) -> None:
        """See whether it registered and whether it ended."""
        if self.exit_code is not None:
            return
        status = self._reap()
        if self.process is None:
            self.process = folder.read_process(self.stem)
        if self.child is not None or (self.process is not None and process_table.alive(self.process)):
            self._seen_s = boot.seconds()
        elif self.process is not None or status is not None:
            self._end(status)

    def send_signal(self, number: signal.Signals, seen: Iterable[process_table.SeenProcess]) -> None:
        """Signal its process group if it lived when last polled, and its processes outside that group."""
        relatives = self._relatives(seen)
        if self.alive and self.pid is not None:
            self.signaled = True
            process_table.send_group(self.pid, number)
        for other in relatives:
            if not self.alive or other.group != self.pid:
                process_table.send(other.process, number)
        self._signaled_processes.update(other.process for other in relatives)

    def clear(self, now: float, grace_s: float, seen: Iterable[process_table.SeenProcess]) -> None:
        """End processes that outlived it: SIGTERM unless they had one, SIGKILL after the grace period."""
        self._below |= left_behind(self.stem)
        self.leftovers = [other.process for other in self._relatives(seen)]
        self.cleared = not self.leftovers
        if self.cleared:
            self.gone_s = boot.seconds() if self._outlived else self._ended_s
            return
        self._outlived = True
        self.kill_at = min(self.kill_at, now + grace_s)
        for process in self.leftovers:
            if now >= self.kill_at:
                process_table.send(process, signal.SIGKILL)
            elif process not in self._signaled_processes:
                process_table.send(process, signal.SIGTERM)
        self._signaled_processes.update(self.leftovers)

    def _relatives(self, seen: Iterable[process_table.SeenProcess]) -> list[process_table.SeenProcess]:
        """Return which of all processes are its own, and remember them: later nothing may link them to it."""
        found = process_table.relatives(seen, self._owns, self._below)
        self._below.update(other.process for other in found)
        return found

    def _owns(self, other: process_table.SeenProcess) -> bool:
        """Say whether a process is its own: by the marker or, if that was removed, by the session.

        The session counts only if we saw its leader alive: the pid in an old note may be another process's.
        """
        if other.marker is not None:
            return self.marker in (other.marker, *other.outer)
        return self._seen_s is not None and other.session == self.pid and other.process.pid != self.pid

    def _reap(self) -> int | None:
        """Return how our child ended; None while it lives, or when it never was ours."""
        if self.child is None:
            return None
        try:
            pid, status = os.waitpid(self.child, os.WNOHANG)
        except ChildProcessError:  # other code waited for it
            self.child = None
            return VANISHED
        if pid == 0:
            return None
        self.child = None
        return os.waitstatus_to_exitcode(status)

    def _end(self, status: int | None) -> None:
        """Record how it ended: by its exit note, else its wait status; killed without a note, it was lost."""
        note = folder.read_exit(self.stem)
        self.ended_ns = folder.age_ns(Path(f"{self.stem}.exit")) or time.time_ns()
        if note is not None:
            self.exit_code, self.stop_noted = exit_code(note.status), note.stopped
            self._ended_s = _end_by_note(self.stem, note)
            return
        self._ended_s = _end_by_signs(self.stem, self.process, self._seen_s)
        if status is None or status < 0:
            self.exit_code, self.lost = VANISHED if status is None else status, not self.signaled
        else:
            self.exit_code, self.stop_noted = exit_code(status), status == STOP_NOTED


# When a worker ended, on the machine's own clock. Files are dated by the wall clock, which can be set, so
# that is used only if nothing else is known: for notes of earlier versions, for workers that left no note,
# and for those of another boot, of which only is known that they ended before this one.


def _end_by_note(stem: Path, note: folder.ExitNote) -> float:
    """Return when a worker wrote its last note."""
    if note.uptime_s is not None and note.boot == boot.boot_id():
        return boot.seconds() - max(0.0, _uptime_s() - note.uptime_s)
    written_s = _by_wall(folder.age_ns(Path(f"{stem}.exit")))
    return min(written_s, _BOOTED_S) if note.boot and note.boot != boot.boot_id() else written_s


def _end_by_signs(stem: Path, process: Process | None, seen_s: float | None) -> float:
    """Return the last moment at which a worker without an exit note is known to have lived.

    `seen_s` is when we last saw it. What it printed and reported covers the time between two polls.
    """
    seen = [] if seen_s is None else [seen_s]
    last_s = max([*_ages(folder.signs(stem)), *seen], default=boot.seconds())
    # Where boots have no ids, it counts as a process of this boot.
    before = process is not None and bool(boot.boot_id()) and process.boot != boot.boot_id()
    return min(last_s, _BOOTED_S) if before else last_s


def attempt_end_s(stems: Iterable[Path]) -> float:
    """Return when the last worker of an attempt had gone, or the last sign of one, from their notes alone."""
    found = [_BOOTED_S]
    for stem in stems:
        note = folder.read_exit(stem)
        # The job's progress file may have been written by a later attempt.
        found += _ages(folder.own_signs(stem)) if note is None else [_end_by_note(stem, note)]
    return max(found)


def _by_wall(written_ns: int | None) -> float:
    """Return when a file was written, never later than now."""
    ago_s = 0.0 if written_ns is None else max(0.0, time.time() - written_ns / 1e9)
    return boot.seconds() - ago_s


def _ages(signs: Iterable[Path]) -> list[float]:
    """Return when those of these files that exist were written."""
    return [_by_wall(written_ns) for path in signs if (written_ns := folder.age_ns(path))]


def _uptime_s() -> float:
    """Return the uptime that a supervisor would note now; in a container that clock may differ from ours."""
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return boot.seconds()
