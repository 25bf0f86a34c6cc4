"""When a worker ended, on the machine's own clock: by its own word, or else by the last sign of its life.

The clock of files is the wall's, which can be set. It is therefore used only where nothing else is known: for
notes of earlier versions, for workers that left no word, and for those of another boot, of which this boot's
clock can say only that they ended before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from slacktide.backends.processes.process_table import Process
from slacktide.backends.workers import job_folder as folder
from slacktide.core import machine_clock as boot

_BOOTED_S = 0.0
"""When this boot began, on its own clock."""


def by_note(stem: Path, note: folder.ExitNote) -> float:
    """Return when a worker wrote its last note."""
    if note.uptime_s is not None and note.boot == boot.boot_id():
        return boot.seconds() - max(0.0, _uptime_s() - note.uptime_s)
    written_s = by_wall(folder.age_ns(Path(f"{stem}.exit")))
    return min(written_s, _BOOTED_S) if note.boot and note.boot != boot.boot_id() else written_s


def by_signs(stem: Path, process: Process | None, seen_s: float | None) -> float:
    """Return the last moment at which a worker that left no word is known to have lived.

    `seen_s` is when we saw it ourselves. The age of what it printed and reported covers the time between
    looks.
    """
    last_s = max([*_ages(folder.signs(stem)), *_given(seen_s)], default=boot.seconds())
    return min(last_s, _BOOTED_S) if process is not None and _of_another_boot(process) else last_s


def of_attempt(stems: Iterable[Path]) -> float:
    """Return when the last worker of an attempt had gone, or the last sign of one, from their notes alone."""
    found = [_BOOTED_S]
    for stem in stems:
        note = folder.read_exit(stem)
        # What the job reported may be the word of a later attempt.
        found += _ages(folder.own_signs(stem)) if note is None else [by_note(stem, note)]
    return max(found)


def by_wall(written_ns: int | None) -> float:
    """Return when a file was written, never later than now."""
    ago_s = 0.0 if written_ns is None else max(0.0, time.time() - written_ns / 1e9)
    return boot.seconds() - ago_s


def _ages(signs: Iterable[Path]) -> list[float]:
    """Return when those of these files were written that there are."""
    return [by_wall(written_ns) for path in signs if (written_ns := folder.age_ns(path))]


def _given(seen_s: float | None) -> Iterable[float]:
    return () if seen_s is None else (seen_s,)


def _of_another_boot(process: Process) -> bool:
    """Say whether a process registered before this boot; unknown, so False, where boots have no ids."""
    return bool(boot.boot_id()) and process.started.partition(" ")[2] != boot.boot_id()


def _uptime_s() -> float:
    """Return what the supervisor would write down now: in a container that clock may differ from ours."""
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return boot.seconds()
