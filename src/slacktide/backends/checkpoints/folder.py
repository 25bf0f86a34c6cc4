"""The folder into which a job writes its checkpoints: which files are copied, and how it is replaced."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slacktide.core.errors import BackendError
from slacktide.core.files import make_durable, replace_file

OURS = ".slacktide"  # what the names of our own files in the folder begin with
STAMP = f"{OURS}-checkpoint.json"  # says which attempt of which job last worked in the folder


class FileState(NamedTuple):
    """The parts of a file's status that show whether it is still the same."""

    inode: int
    bytes: int
    changed_ns: int
    mtime_ns: int


class FolderListing(NamedTuple):
    """The content of a folder, by names relative to it, with `/` between."""

    files: Mapping[str, FileState]
    links: Mapping[str, str]  # links that stay inside, each with its relative target


class Stamp(NamedTuple):
    """Who last worked in a folder."""

    owner: str
    job: str
    attempt: int


class CheckpointCopy(NamedTuple):
    """A whole checkpoint that was saved to the store, or loaded from it."""

    attempt: int
    number: int
    done_share: float
    files: int
    bytes: int
    copied_bytes: int  # without files that were there already
    copied: bool = True  # False of a load: the folder had this checkpoint, or something newer, already


def is_draft(name: str) -> bool:
    """Whether a name is that of a half-written file, or of one of our own files."""
    return name.endswith(".tmp") or name.startswith(OURS) or (name.startswith(".") and ".draft" in name)


def listing(folder: Path) -> FolderListing:
    """Return what to copy of a folder; raises OSError, also if a file vanishes meanwhile.

    Raises BackendError for a link that leads out of the folder: its target would not be copied, so the
    checkpoint would not be whole.
    """
    files: dict[str, FileState] = {}
    links: dict[str, str] = {}
    for entry in _entries(folder):
        name = os.path.relpath(entry.path, folder)
        found = entry.stat(follow_symlinks=False)
        if entry.is_symlink():
            links[name] = _link(folder, name)
        elif stat.S_ISREG(found.st_mode):
            files[name] = look(found)
    return FolderListing(files, links)


def look(found: os.stat_result) -> FileState:
    """Return the parts of a file's status that change when its content does."""
    return FileState(found.st_ino, found.st_size, found.st_ctime_ns, found.st_mtime_ns)


def has_files(folder: Path) -> bool:
    """Whether there is any file in a folder that could be part of a checkpoint."""
    try:
        return any(not entry.is_dir(follow_symlinks=False) for entry in _entries(folder))
    except FileNotFoundError:
        return False


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if is_draft(entry.name):
            continue
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))


def _link(folder: Path, name: str) -> str:
    """Return where a link leads, relative to where it is; raises BackendError if that is outside."""
    target = os.readlink(folder / name)
    for root in (folder, folder.resolve()):
        inside = os.path.relpath(os.path.normpath(root / Path(name).parent / target), root)
        if inside != ".." and not inside.startswith("../"):
            return os.path.relpath(inside, os.path.dirname(name) or ".")
    raise BackendError(
        f"links in a checkpoint must lead to files in it, got {name!r}, which leads elsewhere; "
        "write the file itself"
    )


def safe_name(name: object) -> str:
    """Return a name from a store; raises ValueError if it is not that of a file inside the folder."""
    parts = name.split("/") if isinstance(name, str) else [""]
    if any(part in ("", ".", "..") or "\0" in part for part in parts) or is_draft(parts[-1]):
        raise ValueError(f"unsafe name {name!r}")
    return "/".join(parts)


def safe_link(name: str, target: object) -> str:
    """Return the target of a link from a store; raises ValueError if it is not inside the folder."""
    if not isinstance(target, str) or not target or "\0" in target or target.startswith("/"):
        raise ValueError(f"unsafe link {name!r}")
    inside = os.path.normpath(os.path.join(os.path.dirname(name), target))
    if inside.split("/")[0] == "..":
        raise ValueError(f"unsafe link {name!r}")
    return target


def read_stamp(folder: Path) -> Stamp | None:
    """Return who last worked in a folder, None when that cannot be read."""
    try:
        with open(os.open(folder / STAMP, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            fact = json.load(file)
        return Stamp(str(fact["owner"]), str(fact["job"]), int(fact["attempt"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Make a folder and note who works in it from now on; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / STAMP, json.dumps(stamp._asdict()).encode(), 0o666)


def loading_folder(folder: Path) -> Path:
    """Make an empty folder next to this one, for a checkpoint that is being loaded; raises OSError."""
    fresh = folder.with_name(f".{folder.name}.slacktide-loading")
    if fresh.exists():
        shutil.rmtree(fresh)  # left by a process that was killed
    fresh.mkdir(parents=True)
    return fresh


def put_in_place(fresh: Path, folder: Path) -> None:
    """Replace a folder by a new one, and keep the old one next to it under another name; raises OSError.

    If the process is killed in between, there is no folder until the next load.
    """
    aside = folder.with_name(f".{folder.name}.slacktide-replaced")
    if folder.exists():
        if aside.exists():
            shutil.rmtree(aside)
        os.rename(folder, aside)
    os.rename(fresh, folder)
    with suppress(OSError):
        make_durable(folder.parent)
