"""Default paths: where journal, runs and hidden files are, in the user's folder for Slacktide's state."""

from __future__ import annotations

from pathlib import Path

from slacktide.core.files import state_dir
from slacktide.journal.store.real_path import real_path


def journal_path() -> Path:
    """Return where the journal is kept."""
    return state_dir() / "journal.db"


def runs_dir() -> Path:
    """Return the folder below which every job has one of its own for its workers."""
    return state_dir() / "runs"


def hidden_sibling(journal: Path, what: str) -> Path:
    """Return the path of a hidden file next to a journal, in which its server keeps something."""
    place = real_path(journal)
    return place.with_name(f".{place.name}.{what}")
