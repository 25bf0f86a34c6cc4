"""Files written whole or not at all, and where they are kept when nobody says otherwise."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from slacktide.errors import FileError


def state_dir() -> Path:
    """Return where Slacktide keeps its state: $SLACKTIDE_HOME, else the user's folder for state (XDG)."""
    home = os.environ.get("SLACKTIDE_HOME")
    if home:
        return Path(home).absolute()  # workers run elsewhere and must mean the same folder
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state).absolute() / "slacktide"


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
        _replace(target.resolve(), content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(
            f"must be writable, got: {reason}; check the folder and its rights", path=target
        ) from error


def _replace(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.parent / f".slacktide-{secrets.token_hex(8)}.tmp"
    try:
        with draft.open("xb") as file:
            file.write(content)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
