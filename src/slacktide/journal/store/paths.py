"""Where a journal is with all links followed, and what is next to it: log, lease, runs, hidden files."""

from __future__ import annotations

import os
from pathlib import Path

from slacktide.core.errors import FileError
from slacktide.core.files import state_dir

ANOTHER = "name another with --journal"
LONGEST_NAME_BYTES = 240
"""File systems take 255, and the names of the files next to a journal are a little longer than its own."""
RUNS = ".runs"
MACHINES = ".machines"  # in the folder of runs; no job has a folder that begins with a dot


def real_path(journal: str | os.PathLike[str]) -> Path:
    """Return the path of a journal's file with all links followed; the journal need not be there yet.

    Raises FileError for a path that no journal can have, and for a file with several names: SQLite finds a
    file's log by its name, so processes that use different names would miss what the others wrote.
    """
    try:
        path = Path(os.path.realpath(journal))
        _check_name(path)
        _check_links(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise FileError(
            f"a journal must have a path that can be opened, got: {reason}; {ANOTHER}", path=_shown(journal)
        ) from error
    return path


def runs_of(journal: str | os.PathLike[str]) -> Path:
    """Return the folder of a journal's runs, next to its file; each job has its own folder in it."""
    return real_path(journal).with_suffix(RUNS)


def machine_files_of(journal: str | os.PathLike[str]) -> Path:
    """Return the folder in which a provider may keep files about a journal's machines."""
    return runs_of(journal) / MACHINES


def _check_name(path: Path) -> None:
    if path.suffix == RUNS:
        raise FileError(f"a journal must not be named like a folder of runs (*{RUNS}); {ANOTHER}", path=path)
    length = len(os.fsencode(path.name))
    if length > LONGEST_NAME_BYTES:
        raise FileError(
            f"the name of a journal must have at most {LONGEST_NAME_BYTES} bytes, got {length}; {ANOTHER}",
            path=_shown(path),
        )


def _check_links(path: Path) -> None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if path.is_file() and found.st_nlink > 1:
        raise FileError(
            f"a journal must have one name, got a file with {found.st_nlink} (hard links), under which "
            "events would be lost; remove the other names, or use a copy",
            path=path,
        )


def _shown(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text if len(text) <= 2 * LONGEST_NAME_BYTES else f"{text[:60]}...{text[-20:]}"


def journal_path() -> Path:
    """Return the path of the journal that is used if none is named."""
    return state_dir() / "journal.db"


def hidden_sibling(journal: Path, what: str) -> Path:
    """Return the path of a hidden file next to a journal, in which its server keeps something."""
    place = real_path(journal)
    return place.with_name(f".{place.name}.{what}")
