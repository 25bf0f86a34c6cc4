"""The folder of a job: what is written there, by whom, and how it is read back.

root/<job>/                    the job
    job.json                   whose it is
    progress.jsonl             what the job says of itself (appended to by its workers)
    setup.{pid,exit,log,stop}  the set-up command, with the same notes as a worker
    attempt-0001/              one set of workers
        attempt.json           what is to be started; on disk before the first fork
        stop                   nobody of this attempt may begin any more; names the workers that had been lost
        seen                   touched now and then while a controller sees workers of this attempt
        rank-0.pid             pid and start time, written by the worker's supervisor before anything else
        rank-0.exit            how it ended, whether it had been told to, and when, written by the supervisor
        rank-0.log             what it printed

All of it is ours alone (0700, 0600), and no link is followed when we write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from slacktide.backend.local.launch import Kind
from slacktide.backend.local.process_table import Process

_ATTEMPT = "attempt-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What an attempt is to be, written down before anything of it is started."""

    attempt: int
    generation: int = 1
    """How often the workers of this attempt re-formed; today a changed set is always a new attempt."""
    kinds: tuple[Kind, ...]
    """By rank."""
    devices: tuple[str, ...]
    """The GPU of each rank as CUDA names it; empty on a machine without."""
    master_port: int
    grace_s: float
    home: str = ""
    """The real path of the job's folder, which its workers were told; empty when it was not written down."""
    ranks: tuple[int, ...] = ()
    """The rank of each of these workers, where they are a part of a set that several machines carry."""
    addresses: tuple[str, ...] = ()
    """Of such a set, the machine of every rank."""

    @property
    def rank_numbers(self) -> tuple[int, ...]:
        """The rank of each of these workers."""
        return self.ranks or tuple(range(len(self.kinds)))


class ExitNote(NamedTuple):
    """The last word of a supervisor."""

    status: int
    """As a shell tells it."""
    told: bool = False
    """Whether somebody, whoever it was, had told it to stop."""
    uptime_s: float | None = None
    """When, by the machine's own clock; None when it could not say, or in the words of earlier versions."""
    boot: str = ""


def progress_path(folder: Path) -> Path:
    """Return the file to which the workers of a job append what they have done."""
    return folder / "progress.jsonl"


def attempt_folder(folder: Path, attempt: int) -> Path:
    """Return where the notes of one attempt are."""
    return folder / f"{_ATTEMPT}{attempt:04d}"


def attempts(folder: Path) -> list[int]:
    """Return the attempts that have a folder, the first one first."""
    names = (path.name.removeprefix(_ATTEMPT) for path in folder.glob(f"{_ATTEMPT}*"))
    return sorted(int(name) for name in names if name.isdecimal())


def write_intent(folder: Path, intent: Intent) -> None:
    """Put on disk what is about to be started; raises OSError."""
    target = attempt_folder(folder, intent.attempt)
    target.mkdir(mode=0o700, exist_ok=True)
    write_durably(target / "attempt.json", json.dumps({"format": 1, **asdict(intent)}))


def has_intent(folder: Path, attempt: int) -> bool:
    """Say whether anything was written down of what an attempt was to be, though it may make no sense."""
    return os.path.lexists(attempt_folder(folder, attempt) / "attempt.json")


def is_begun(folder: Path, attempt: int) -> bool:
    """Say whether any worker of an attempt has left a trace."""
    return any(attempt_folder(folder, attempt).glob("rank-*"))


def read_intent(folder: Path, attempt: int) -> Intent | None:
    """Return what an attempt was to be; None when nothing, or nothing that makes sense, is written down."""
    try:
        fact = json.loads(read_text(attempt_folder(folder, attempt) / "attempt.json"))
        kinds, devices = tuple(map(_kind, fact["kinds"])), tuple(map(str, fact["devices"]))
        if devices and len(devices) != len(kinds):
            return None
        if len(fact.get("ranks", ())) not in (0, len(kinds)):
            return None
        return Intent(
            attempt=attempt,
            generation=int(fact["generation"]),
            kinds=kinds,
            devices=devices,
            master_port=int(fact["master_port"]),
            grace_s=float(fact["grace_s"]),
            home=str(fact.get("home", "")),
            ranks=tuple(map(int, fact.get("ranks", ()))),
            addresses=tuple(map(str, fact.get("addresses", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _kind(text: object) -> Kind:
    if text == "spot":
        return "spot"
    if text == "on-demand":
        return "on-demand"
    raise ValueError("a worker's kind must be spot or on-demand")


def read_process(stem: Path) -> Process | None:
    """Return who registered under a name, None while nobody has."""
    line = _line(Path(f"{stem}.pid"))
    pid, _, started = line.partition(" ") if line else ("", "", "")
    return Process(int(pid), started) if pid.isdecimal() else None


def read_exit(stem: Path) -> ExitNote | None:
    """Return the last word of a supervisor, None while there is none; of earlier versions, the status."""
    status, told, uptime, boot, *_ = [*(_line(Path(f"{stem}.exit")) or "").split(" "), "", "", ""]
    if not status.isdecimal():
        return None
    try:
        return ExitNote(int(status), told == "1", float(uptime) if uptime else None, boot)
    except ValueError:  # the clock's words made no sense
        return ExitNote(int(status), told == "1")


def write_stop(path: Path, lost: Collection[int]) -> None:
    """Let nobody of an attempt begin any more, and name the ranks that had been lost; raises OSError.

    The first note stays with its time: who ended before it had not been told.
    """
    with suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "w", encoding="ascii") as file:
            file.write(" ".join(map(str, sorted(lost))) + "\n")


def read_stop(path: Path) -> set[int]:
    """Return the ranks that had been lost when an attempt was told to stop."""
    return {int(word) for word in (_line(path) or "").split() if word.isdecimal()}


def touch(path: Path) -> None:
    """Leave a sign of life; a disk that is full keeps nobody from watching."""
    with suppress(OSError):
        handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.utime(handle)
        finally:
            os.close(handle)


def signs(stem: Path) -> tuple[Path, ...]:
    """Return the files whose age tells when a worker last lived: its notes, what it printed and reported."""
    home = stem.parent
    own = own_signs(stem)
    return (*own, progress_path(home.parent)) if home.name.startswith(_ATTEMPT) else own


def own_signs(stem: Path) -> tuple[Path, ...]:
    """Return those that no worker of another attempt writes."""
    return Path(f"{stem}.pid"), Path(f"{stem}.log"), seen_path(stem.parent)


def stored_path(place: Path) -> Path:
    """Return the note of how much work the job's store is known to hold."""
    return place / "stored"


def seen_path(home: Path) -> Path:
    """Return the file that is touched while a controller sees workers of an attempt."""
    return home / "seen"


def age_ns(path: Path) -> int | None:
    """Return when a file was last written, in nanoseconds of the wall clock; None when it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def write_durably(path: Path, text: str) -> None:
    """Write a file whole, and let it survive a loss of power; raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_text(path: Path) -> str:
    """Read a note of ours, not through a link; raises OSError, and ValueError for what is no text."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
        return file.read()


def _line(path: Path) -> str | None:
    """Return a note of one line; None while its end has not been written, and when it cannot be read.

    A note that a broken disk keeps from us is no word; whoever ended without one was lost.
    """
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return text[:-1] if text.endswith("\n") else None
