"""Files below a folder in which others make and remove files meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path


def texts_below(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the texts of files whose name is like a pattern; those that are gone by then are left out."""
    for path in paths_below(folder, pattern):
        with suppress(FileNotFoundError):
            yield path.read_text(encoding="utf-8", errors="replace")


def paths_below(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield files whose name is like a pattern; a folder that is gone by the time it is read has none."""
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if fnmatch(name, pattern))


def pids_below(folder: Path, pattern: str) -> set[int]:
    """Return the process ids that whole notes give."""
    return {int(text.split()[0]) for text in texts_below(folder, pattern) if text.endswith("\n")}
