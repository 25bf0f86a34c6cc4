"""Where the journal and the runs are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.journal.store.paths import journal_path


def test_both_lie_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLACKTIDE_HOME", "/somewhere")
    assert journal_path() == Path("/somewhere/journal.db")
    monkeypatch.setenv("SLACKTIDE_HOME", "here")
    monkeypatch.chdir(tmp_path)
    assert journal_path() == tmp_path / "here" / "journal.db"


def test_both_lie_in_the_folder_for_state_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACKTIDE_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert journal_path() == Path("/state/slacktide/journal.db")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert journal_path() == Path.home() / ".local/state/slacktide/journal.db"
