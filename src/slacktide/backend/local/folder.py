"""The folder of a job: what is written there, by whom, and how it is read back.

root/<job>/                    the job
    job.json                   whose it is
    progress.jsonl             what the job says of itself (appended to by its workers)
    setup.{pid,exit,log,stop}  the set-up command, with the same notes as a worker
    attempt-0001/              one set of workers
        attempt.json           what is to be started; on disk before the first fork
        stop                   nobody of this attempt may begin any more
        rank-0.pid             pid and start time, written by the worker's supervisor before anything else
        rank-0.exit            how it ended, written by the supervisor
        rank-0.log             what it printed
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from slacktide.backend.local.launch import Kind
from slacktide.backend.local.machine import Process
from slacktide.errors import InputError

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


def own(folder: Path, owner: str) -> None:
    """Make a job's folder ours; raises InputError when it is another owner's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "job.json").exists():
        write_durably(folder / "job.json", json.dumps({"format": 1, "owner": owner}))
    elif owner_of(folder) != owner:
        raise InputError(
            f"a job's folder must belong to this controller, got one of {owner_of(folder)!r} at {folder}; "
            "choose another job id, or remove the folder if nobody needs it"
        )


def owner_of(folder: Path) -> str | None:
    """Return whose job a folder is; None when it is no job's."""
    try:
        return str(json.loads((folder / "job.json").read_text(encoding="utf-8"))["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


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


def jobs(root: Path, owner: str) -> Iterator[Path]:
    """Yield the folders of an owner's jobs."""
    if root.is_dir():
        yield from (path for path in sorted(root.iterdir()) if owner_of(path) == owner)


def write_intent(folder: Path, intent: Intent) -> None:
    """Put on disk what is about to be started; raises OSError."""
    target = attempt_folder(folder, intent.attempt)
    target.mkdir(mode=0o700, exist_ok=True)
    write_durably(target / "attempt.json", json.dumps({"format": 1, **asdict(intent)}))


def read_intent(folder: Path, attempt: int) -> Intent | None:
    """Return what an attempt was to be; None when nothing, or nothing that makes sense, is written down."""
    path = attempt_folder(folder, attempt) / "attempt.json"
    try:
        fact = json.loads(path.read_text(encoding="utf-8"))
        return Intent(
            attempt=attempt,
            generation=int(fact["generation"]),
            kinds=tuple(fact["kinds"]),
            devices=tuple(fact["devices"]),
            master_port=int(fact["master_port"]),
            grace_s=float(fact["grace_s"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_process(stem: Path) -> Process | None:
    """Return who registered under a name, None while nobody has."""
    line = _line(Path(f"{stem}.pid"))
    pid, _, started = line.partition(" ") if line else ("", "", "")
    return Process(int(pid), started) if pid.isdecimal() else None


def read_exit(stem: Path) -> int | None:
    """Return the status that a supervisor wrote down, None while there is none."""
    line = _line(Path(f"{stem}.exit"))
    return int(line) if line and line.isdecimal() else None


def age_ns(path: Path) -> int | None:
    """Return when a file was last written, in nanoseconds of the wall clock; None when it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def write_durably(path: Path, text: str) -> None:
    """Write a file whole, and let it survive a loss of power; raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _line(path: Path) -> str | None:
    """Return a note of one line; None while it is missing or its end has not been written."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return text[:-1] if text.endswith("\n") else None
