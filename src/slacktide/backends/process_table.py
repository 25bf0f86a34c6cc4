"""The processes of this machine: distinguished by pid and start time, and found by a variable they carry.

A pid alone does not identify a process, because the system reuses it. A process that may be signaled is
therefore known by its start time as well, or by the variable that every worker hands down to what it starts.

A process may also hide: wipe out the marker and begin a session of its own. A worker's supervisor is
therefore made a subreaper, where the system has that (Linux): whatever the worker starts stays below it,
however often its parents end. When the command has ended, the supervisor notes what is
left below it, because once it has ended too nothing links those processes to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slacktide.core.machine_clock import boot_id

MARKER = "SLACKTIDE_WORKER"
"""The variable that says `owner/job/attempt/rank` in a worker and in all that it starts."""

OUTER = "SLACKTIDE_WORKER_OF"
"""The variable that names, with blanks between, the workers in which a worker's own controller runs."""

_LINUX = os.path.exists("/proc/self/stat")
_KEY = MARKER.encode() + b"="
_EXITING = 0x4  # the flag of the kernel for a process that exits (PF_EXITING)
_KILL = 1 << (signal.SIGKILL - 1)
_OUTER_KEY = OUTER.encode() + b"="


class Process(NamedTuple):
    """One process, not to be mixed up with a later one of the same pid."""

    pid: int
    started: str  # when it began, as the system writes it

    @property
    def boot(self) -> str:
        """The id of the boot in which it began; empty where the system does not say."""
        return self.started.partition(" ")[2]


class SeenProcess(NamedTuple):
    """A process found while looking through all of them."""

    process: Process
    group: int
    session: int
    marker: str | None
    parent: int = 0
    outer: tuple[str, ...] = ()
    """The workers in which its own worker's controller runs, where one controller runs inside another."""


def alive(process: Process) -> bool:
    """Say whether this process, and not another with its pid, still runs; a zombie does not."""
    if _LINUX:
        stat = _stat(process.pid)
        return stat is not None and stat[0] not in b"ZX" and _started(stat) == process.started
    return _ps_started(process.pid) == process.started


def dying(pid: int) -> bool:
    """Say whether a process has been killed or begun to exit, though it may not have ended yet."""
    stat = _stat(pid) if _LINUX else None
    if stat is None:
        return False
    if stat[0] in b"ZX" or int(stat[6]) & _EXITING:
        return True
    try:
        lines = _content(f"/proc/{pid}/status").splitlines()
    except OSError:  # gone meanwhile
        return True
    pending = [int(line.split()[1], 16) for line in lines if line.startswith((b"SigPnd:", b"ShdPnd:"))]
    return any(signals & _KILL for signals in pending)


def scan() -> Iterator[SeenProcess]:
    """Yield every living process but this one; none on systems without Linux's /proc."""
    if not _LINUX:
        return
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        stat = _stat(int(entry))
        if stat is None or stat[0] in b"ZX":
            continue
        process = Process(int(entry), _started(stat))
        environ = _environ(process.pid)
        outer = (_variable(environ, _OUTER_KEY) or "").split()
        marker = _variable(environ, _KEY)
        yield SeenProcess(process, int(stat[2]), int(stat[3]), marker, int(stat[1]), tuple(outer))


def send(process: Process, number: signal.Signals) -> None:
    """Signal one process if it is still the one that was meant."""
    if alive(process):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def send_group(leader_pid: int, number: signal.Signals) -> None:
    """Signal a process group; if it is gone or not ours, nothing is raised: the next poll finds that out."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, number)


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields of a process's stat from its state on (the third of the manual), None when gone."""
    try:
        line = _content(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # hidden processes are not ours
        return None
    # The command in brackets before may hold blanks and brackets of its own.
    return line[line.rindex(b")") + 2 :].split()


def _started(stat: list[bytes]) -> str:
    """Return the start in clock ticks and the boot that it counts from, as the supervisor writes them."""
    return f"{stat[19].decode()} {boot_id()}"


def process_of(pid: int) -> Process:
    """Return the process that has this pid now; raises ProcessLookupError when there is none."""
    stat = _stat(pid)
    if stat is None:
        raise ProcessLookupError(f"there must be a process {pid}, found none")
    return Process(pid, _started(stat))


def carries(pid: int, variable: str, value: str) -> bool:
    """Say whether a process has a variable of this value; False if that cannot be read."""
    return _variable(_environ(pid), f"{variable}=".encode()) == value


def _environ(pid: int) -> bytes:
    try:
        return _content(f"/proc/{pid}/environ")
    except OSError:  # it has ended, or is another user's
        return b""


def _variable(environ: bytes, key: bytes) -> str | None:
    for entry in environ.split(b"\0") if key in environ else ():
        if entry.startswith(key):
            return entry[len(key) :].decode(errors="replace")
    return None


def _content(path: str) -> bytes:
    """Read a small file, unbuffered because that is faster: a scan reads two for every process."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _ps_started(pid: int) -> str | None:
    """Return the start time from `ps`, formatted as the supervisor does; None when gone or a zombie."""
    environ = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environ).stdout.split()
    return " ".join(answer[1:]) if answer and answer[0][0] not in "ZX" else None


# posix_spawn cannot make a process a subreaper, but the setting outlives exec: so a short-lived Python makes
# itself one and becomes the shell, with the same variables and with the signals that Python ignores reset.
_PROGRAM = """
import os, signal, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
except Exception:
    pass
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
with open("/proc/self/environ", "rb") as file:
    given = dict(entry.split(b"=", 1) for entry in file.read().split(b"\\0") if b"=" in entry)
os.execve(sys.argv[1], sys.argv[1:], given)
"""


def as_subreaper(command: list[str]) -> list[str]:
    """Return a command that runs this one as a subreaper (it adopts orphans below it) where possible."""
    if sys.platform != "linux" or not sys.executable or not Path("/proc/self/environ").exists():
        return command
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, *command]


def relatives(
    seen: Iterable[SeenProcess], is_ours: Callable[[SeenProcess], bool], known: Collection[Process]
) -> list[SeenProcess]:
    """Return the processes that are ours or were known to be, and all that is below them."""
    everyone = list(seen)
    below: dict[int, list[SeenProcess]] = defaultdict(list)
    for other in everyone:
        below[other.parent].append(other)
    waiting = [other for other in everyone if other.process in known or is_ours(other)]
    found = {other.process for other in waiting}
    while waiting:
        for child in below.get(waiting.pop().process.pid, ()):
            if child.process not in found:
                found.add(child.process)
                waiting.append(child)
    return [other for other in everyone if other.process in found]


def left_behind(stem: Path) -> set[Process]:
    """Return the processes that a supervisor noted as left below it when its command had ended."""
    try:
        lines = Path(f"{stem}.left").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    notes = (line.partition(" ") for line in lines)
    return {Process(int(pid), started) for pid, _, started in notes if pid.isdecimal()}
