"""Files and folders that are ours: for us alone, marked with their owner, never reached through a link."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from slacktide.core.errors import InputError
from slacktide.core.files import PRIVATE_FILE, make_durable, replace_file

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_BEGUN = ("attempt-*", "progress.jsonl", "setup.pid")
"""What is in a job's folder only after something was begun there."""


def own(folder: Path, owner: str) -> None:
    """Make a job's folder ours; raises InputError when it is not for us to use, OSError if that fails."""
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
    """Refuse a job's folder that is there and not this owner's; raises InputError or OSError."""
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
    """Return whose job a folder is; None when it is no job's, or not to be read."""
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
    """Write a file whole, and let it survive a loss of power; raises OSError."""
    replace_file(path, f"{text}\n".encode(), PRIVATE_FILE)
    make_durable(path.parent)


def read_text(path: Path) -> str:
    """Read a note of ours, not through a link; raises OSError, and ValueError for what is no text."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
        return file.read()


def _private_mode(path: Path) -> int:
    """Return the rights of a folder that only we can write to; raises InputError when it is none."""
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
