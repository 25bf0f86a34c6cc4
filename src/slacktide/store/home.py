"""Where things are kept when nobody says otherwise: in the user's folder for Slacktide's state."""

from __future__ import annotations

from pathlib import Path

from slacktide.files import state_dir


def journal_path() -> Path:
    """Return where the journal is kept."""
    return state_dir() / "journal.db"


def runs_dir() -> Path:
    """Return the folder below which every job has one of its own for its workers."""
    return state_dir() / "runs"
