"""The folder of a job: what is written there, by whom, and how it is read back.

root/<job>/                    the job
    job.json                   whose it is
    progress.jsonl             the job's reports on its work (appended to by its workers)
    setup.{pid,exit,log,stop}  the set-up command, with the same notes as a worker
    attempt-0001/              one set of workers
        attempt.json           what is to be started; on disk before the first fork
        stop                   keeps workers of this attempt from starting; names ranks that had been lost
        seen                   touched now and then while a controller sees workers of this attempt
        rank-0.pid             pid and start time, written by the worker's supervisor before anything else
        rank-0.exit            how it ended, whether by request, and when, written by the supervisor
        rank-0.log             what it printed
        rank-0.able            this worker can go on in another set; written by the worker (slacktide.worker)
        rank-0.place           its place in the newest set that it belongs to, if it began in another
        rank-0.taken           the attempt in which it has taken its place; written by the worker

Only our user may read it (0700, 0600), and no link is followed when we write.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from slacktide.backends.base import PIECE_BYTES
from slacktide.backends.process_table import Process
from slacktide.core.errors import BackendError, InputError
from slacktide.core.files import PRIVATE_FILE, make_durable, replace_file
from slacktide.journal.events import Capacity

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_BEGUN = ("attempt-*", "progress.jsonl", "setup.pid")
"""Names that a job's folder contains only after something was started there."""


def own(folder: Path, owner: str) -> None:
    """Make a job's folder ours; raises InputError if it is another's or unsafe, OSError if that fails."""
    make_private(folder.parent)
    make_private(folder)
    # Folders of earlier versions could be read by all; the one above them may be anything of the user's.
    os.chmod(folder, _private_mode(folder) & stat.S_IRWXU)
    if not os.path.lexists(folder / "job.json") and not any(any(folder.glob(name)) for name in _BEGUN):
        write_durably(folder / "job.json", json.dumps({"format": 1, "owner": owner}))
    check_owned(folder, owner)


def make_private(path: Path) -> None:
    """Make a folder that only we can write to, or check that it is one; raises InputError or OSError."""
    if not os.path.lexists(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _private_mode(path)


def check_owned(folder: Path, owner: str) -> None:
    """Raise InputError if a job's folder exists and is not this owner's, OSError if it cannot be read."""
    if not os.path.lexists(folder):
        return
    for path in (folder.parent, folder):
        _private_mode(path)
    found = owner_of(folder)
    if found != owner:
        whose = "one of unknown owner" if found is None else f"one of journal {found}"
        raise InputError(
            f"the folder of job {folder.name} must belong to journal {owner}, got {whose} at {folder}; "
            "give the job another name, or use another journal"
        )


def owner_of(folder: Path) -> str | None:
    """Return the owner of a job's folder; None if it is not a job's, or unreadable."""
    try:
        return str(json.loads(read_text(folder / "job.json"))["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def jobs(root: Path, owner: str) -> Iterator[Path]:
    """Yield the folders of an owner's jobs; none where the folder of all of them cannot be read."""
    try:
        found = sorted(root.iterdir())
    except OSError:
        return
    yield from (path for path in found if owner_of(path) == owner)


def write_durably(path: Path, text: str) -> None:
    """Write a file whole or not at all, so that it survives a loss of power; raises OSError."""
    replace_file(path, f"{text}\n".encode(), PRIVATE_FILE)
    make_durable(path.parent)


def read_text(path: Path) -> str:
    """Read a note of ours, not through a link; raises OSError, and ValueError if it is not text."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
        return file.read()


def _private_mode(path: Path) -> int:
    """Return the mode of a folder that only we can write to; raises InputError if it is not such a folder."""
    found = os.lstat(path)
    problem = ""
    if stat.S_ISLNK(found.st_mode):
        problem = "a symbolic link"
    elif not stat.S_ISDIR(found.st_mode):
        problem = "something that is not a folder"
    elif found.st_uid != os.geteuid():
        problem = f"one of user {found.st_uid}"
    elif found.st_mode & _OTHERS_WRITE:
        problem = f"one that others may write to (mode {stat.S_IMODE(found.st_mode):04o})"
    if problem:
        raise InputError(
            f"a folder for runs must be a folder of user {os.geteuid()} alone, got {problem} at {path}; "
            "use another journal, or make sure that only you can write there"
        )
    return stat.S_IMODE(found.st_mode)


_ATTEMPT = "attempt-"


class KeptRank(NamedTuple):
    """A worker that an attempt takes over from another; its notes and its marker stay where it began."""

    rank: int  # in the attempt that takes it over
    attempt: int  # under which it registered
    former_rank: int  # with which it registered


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What an attempt is to be, written down before anything of it is started."""

    attempt: int
    generation: int = 1  # how many sets of workers the oldest process of this attempt has belonged to
    kinds: tuple[Capacity, ...]  # by rank
    devices: tuple[str, ...]  # the GPU of each rank as CUDA names it; empty on a machine without
    master_port: int
    grace_s: float
    home: str = ""
    """The real path of the job's folder, as its workers received it; empty when it was not written down."""
    ranks: tuple[int, ...] = ()
    """The rank of each of these workers, if they are one machine's part of a set; else empty."""
    addresses: tuple[str, ...] = ()  # the address of every rank's machine, in such a set
    kept: tuple[KeptRank, ...] = ()  # the workers that are taken over; the others are started
    former: int = 0
    """The attempt from which workers are taken over, here or on other machines; 0: all are started."""
    pool: str = ""  # where its GPUs are rented
    script: str = ""
    """A digest of what its workers were started with: only workers of the same script can be one set."""

    @property
    def rank_numbers(self) -> tuple[int, ...]:
        """The rank of each of these workers."""
        return self.ranks or tuple(range(len(self.kinds)))

    @property
    def reforms(self) -> bool:
        """Whether the set is made from another one, so that its workers wait for their places."""
        return bool(self.kept or self.former)

    def origin(self, rank: int) -> tuple[int, int]:
        """Return the attempt and rank under which the worker of this rank registered, or will register."""
        kept = (worker[1:] for worker in self.kept if worker.rank == rank)
        return next(kept, (self.attempt, rank))


class ExitNote(NamedTuple):
    """What a supervisor wrote when its command had ended."""

    status: int  # as a shell reports it: 128 and the number for a signal
    stopped: bool = False  # whether a request to stop had reached it, from any sender
    uptime_s: float | None = None
    """When, on the machine's own clock; None if that was unknown, and in notes of earlier versions."""
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
    """Write down an attempt before any of it is started; raises OSError."""
    target = attempt_folder(folder, intent.attempt)
    target.mkdir(mode=0o700, exist_ok=True)
    write_durably(target / "attempt.json", json.dumps({"format": 1, **asdict(intent)}))


def read_intent(folder: Path, attempt: int) -> Intent | None:
    """Return what was written down about an attempt; None if nothing was, or nothing valid."""
    try:
        fact = json.loads(read_text(attempt_folder(folder, attempt) / "attempt.json"))
        known = {name: read(fact[name]) for name, read in _READERS.items() if name in fact}
        intent = Intent(attempt=attempt, **known)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    workers = len(intent.kinds)
    fits = len(intent.devices) in (0, workers) and len(intent.ranks) in (0, workers)
    return intent if fits else None


_CAPACITIES: dict[str, Capacity] = {"spot": "spot", "on-demand": "on-demand"}
_READERS: dict[str, Callable[[Any], Any]] = {
    "generation": int,
    "kinds": lambda kinds: tuple(_CAPACITIES[kind] for kind in kinds),
    "devices": lambda devices: tuple(map(str, devices)),
    "master_port": int,
    "grace_s": float,
    "home": str,
    "ranks": lambda ranks: tuple(map(int, ranks)),
    "addresses": lambda addresses: tuple(map(str, addresses)),
    "kept": lambda workers: tuple(KeptRank(*map(int, worker)) for worker in workers),
    "former": int,
    "pool": str,
    "script": str,
}
"""How each field of an intent is read; those that a note of an earlier version lacks have their defaults."""


def taken_over(folder: Path) -> dict[tuple[int, int], int]:
    """Return the present attempt of each worker that changed its set, by its first attempt and rank."""
    intents = (read_intent(folder, attempt) for attempt in attempts(folder))
    return {worker[1:]: intent.attempt for intent in intents if intent for worker in intent.kept}


def read_process(stem: Path) -> Process | None:
    """Return the process that registered under a name, None while there is none."""
    line = _line(Path(f"{stem}.pid"))
    pid, _, started = line.partition(" ") if line else ("", "", "")
    return Process(int(pid), started) if pid.isdecimal() else None


def read_exit(stem: Path) -> ExitNote | None:
    """Return a supervisor's exit note, None while there is none; old versions only wrote the status."""
    status, stopped, uptime, boot, *_ = [*(_line(Path(f"{stem}.exit")) or "").split(" "), "", "", ""]
    if not status.isdecimal():
        return None
    try:
        return ExitNote(int(status), stopped == "1", float(uptime) if uptime else None, boot)
    except ValueError:  # the uptime is not a number
        return ExitNote(int(status), stopped == "1")


def write_stop(path: Path, lost: Collection[int]) -> None:
    """Keep workers of an attempt from starting, and note which ranks had been lost; raises OSError.

    An existing note keeps its time: a worker that ended before it had not been told to stop.
    """
    with suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "w", encoding="ascii") as file:
            file.write(" ".join(map(str, sorted(lost))) + "\n")


def read_stop(path: Path) -> set[int]:
    """Return the ranks that had been lost when an attempt was requested to stop."""
    return {int(word) for word in (_line(path) or "").split() if word.isdecimal()}


def touch(path: Path) -> None:
    """Leave a sign of life; errors are ignored, for a full disk must not keep a controller from watching."""
    with suppress(OSError):
        handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.utime(handle)
        finally:
            os.close(handle)


def signs(stem: Path) -> tuple[Path, ...]:
    """Return the files whose age shows when a worker last lived: its notes, what it printed and reported."""
    home = stem.parent
    own = own_signs(stem)
    return (*own, progress_path(home.parent)) if home.name.startswith(_ATTEMPT) else own


def own_signs(stem: Path) -> tuple[Path, ...]:
    """Return those of these files that no worker of another attempt writes."""
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


def _line(path: Path) -> str | None:
    """Return a note of one line; None while its end has not been written, and when it cannot be read.

    A note that cannot be read counts as none; a worker that ended without one was lost.
    """
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return text[:-1] if text.endswith("\n") else None


def open_plain_file(path: str, flags: int) -> int:
    """An opener for `open`, for files that a job may have replaced: follows no link, waits for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


class LogFile(NamedTuple):
    """Where the output of a worker is."""

    attempt: int  # 0 for the set-up
    rank: int
    path: Path

    def read(self, after: int) -> Iterator[bytes]:
        """Yield the lines from this byte on, long ones in pieces; raises BackendError.

        The last line may be incomplete. If the job replaced its log by a link or a pipe, that is not read.
        """
        try:
            with open(self.path, "rb", opener=open_plain_file) as file:
                file.seek(after)
                while piece := file.readline(PIECE_BYTES):
                    yield piece
        except FileNotFoundError:
            return  # cleared away meanwhile
        except OSError as error:
            raise BackendError(
                f"{self.path}: what a worker printed must be a file that can be read, got: {error.strerror}; "
                "check what the job did to it"
            ) from error


def logs_in(place: Path) -> list[LogFile]:
    """Return the logs of a job's set-up and workers that are in its folder, oldest attempt first."""
    found = [LogFile(0, 0, path) for path in place.glob("setup.log")]
    for attempt in attempts(place):
        paths = attempt_folder(place, attempt).glob("rank-*.log")
        ranks = ((path.stem.removeprefix("rank-"), path) for path in paths)
        found += sorted(LogFile(attempt, int(rank), path) for rank, path in ranks if rank.isdecimal())
    return found
