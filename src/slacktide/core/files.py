"""Atomic file writes, the default folder for state, and file permissions.

Files that a user asks for (reports, pictures, markets) get the permissions of the user's umask. Files that
Slacktide keeps for itself (journals, what was learned, machine code) are for their owner only.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from slacktide.core.errors import FileError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_OTHERS = 0o077  # the permissions of everyone but the owner
_OTHERS_WRITE = 0o022


def state_dir() -> Path:
    """Return where Slacktide keeps its state: $SLACKTIDE_HOME, else the user's folder for state (XDG)."""
    home = os.environ.get("SLACKTIDE_HOME")
    if home:
        return Path(home).absolute()  # workers run elsewhere and must mean the same folder
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state).absolute() / "slacktide"


def read_at_most(path: str | os.PathLike[str], most_bytes: int, words: str) -> bytes:
    """Return the content of a file; raises FileError for a longer one, with the limit in the form `words`."""
    try:
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"must be a readable file, got: {reason}", path=path) from error
    if len(data) > most_bytes:
        raise FileError(f"must be at most {words}, got more", path=path)
    return data


def utf8_text(data: bytes, path: object, first_line: int = 1) -> str:
    """Decode UTF-8, with or without a byte-order mark; raises FileError with the place of a bad byte."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        message = f"must be UTF-8 text, got byte 0x{error.object[error.start]:02x}; save it as UTF-8"
    else:
        before, zero, _ = text.partition("\0")
        if not zero:
            return text
        message = "must be text, got a zero byte; is this a binary file?"
    line, column = before.count("\n") + first_line, len(before) - before.rfind("\n")
    raise FileError(message, path=path, line=line, column=column)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that a reader sees the old one or the whole new one; makes its folder.

    Raises FileError when the path is a folder or cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        raise FileError("output must be written to a file, got a folder", path=target)
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a pipe or device is written to, never replaced
            return
        # A link stays a link: what it points to is replaced.
        whole = target.resolve()
        whole.parent.mkdir(parents=True, exist_ok=True)
        replace_file(whole, content, 0o666)
    except OSError as error:
        raise _unwritable(target, error) from error


def write_private(path: str | os.PathLike[str], content: bytes) -> None:
    """Write one of Slacktide's own files atomically, readable by its owner only; makes its folder.

    Raises FileError when it cannot be written.
    """
    target = Path(path)
    try:
        whole = target.resolve()
        make_private_folder(whole.parent)
        replace_file(whole, content, PRIVATE_FILE)
        make_durable(whole.parent)
    except OSError as error:
        raise _unwritable(target, error) from error


def make_private_folder(folder: Path) -> None:
    """Make a folder and its parents for the owner only; folders that exist keep their permissions.

    Raises OSError.
    """
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def is_our_own_folder(folder: Path) -> bool:
    """Whether this is a folder (not a link) that belongs to this user and that no other user can write to."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
    )


def keep_from_others(path: Path) -> None:
    """Remove others' permissions from a file of ours, if it exists: an earlier version left it readable.

    The file is not opened for this, because closing it would drop the locks that SQLite has on it.
    """
    with suppress(OSError):  # not there, or not ours to change
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)


def make_durable(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk so that they survive a power loss; raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(target: Path, error: OSError) -> FileError:
    reason = error.strerror or str(error)
    return FileError(f"must be writable, got: {reason}; check the folder and its permissions", path=target)


def replace_file(target: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically, even if it is a link; raises OSError.

    The content survives a power loss; the name does after `make_durable` on the folder.
    """
    draft = target.parent / f".slacktide-{secrets.token_hex(8)}.tmp"
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
