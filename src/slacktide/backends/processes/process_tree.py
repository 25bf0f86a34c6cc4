"""Whose process is whose, also when it hides: who wipes out the marker and begins a session of its own.

A worker's supervisor is made a subreaper, where the system has that (Linux): whatever the worker starts stays
below it, however often its parents end. What is left below it when the command has ended the supervisor
writes down, because from its own end on nothing leads from it to them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from slacktide.backends.processes.process_table import Process, SeenProcess

# The setting outlives exec, and posix_spawn cannot make it; so a short-lived Python makes it and becomes the
# shell. It hands on the variables as they came and the signals that it ignores itself.
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
    """Return a command that becomes this one and adopts the orphans below it, where that can be had."""
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
    found = {other.process: other for other in waiting}
    while waiting:
        for child in below.get(waiting.pop().process.pid, ()):
            if child.process not in found:
                found[child.process] = child
                waiting.append(child)
    return list(found.values())


def left_behind(stem: Path) -> set[Process]:
    """Return what a supervisor wrote down as left below it when its command had ended."""
    try:
        lines = Path(f"{stem}.left").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    notes = (line.partition(" ") for line in lines)
    return {Process(int(pid), started) for pid, _, started in notes if pid.isdecimal()}
