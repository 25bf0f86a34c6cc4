"""Where a journal really lies: one place by whatever name, and a sentence where there cannot be one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slacktide.app.journal.journal import open_journal, unfinished_files
from slacktide.cli import run
from slacktide.core.errors import FileError
from slacktide.journal.events import CancellationAsked
from slacktide.journal.store.lease import JournalLease
from slacktide.journal.store.paths import real_path, runs_of
from slacktide.journal.store.sqlite import SqliteStore


def test_row_11_log_runs_and_journal_lie_beside_the_real_file(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "journal.db", tmp_path / "link.db"
    real.parent.mkdir()
    link.symlink_to(real)
    with SqliteStore(link) as store:
        store.append([CancellationAsked(job="x", at_hours=0.0)])
        assert store.path == real
        assert {path.name for path in real.parent.iterdir()} == {
            "journal.db", "journal.db-wal", "journal.db-shm",
        }  # fmt: skip
        with open_journal(link) as client:
            assert client.path == real
            assert client.store.last_seq() == 1
    assert runs_of(link) == runs_of(real) == tmp_path / "real" / "journal.runs"
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link.db"}


def test_row_11_a_file_with_two_names_is_refused_under_both(tmp_path: Path) -> None:
    journal, other = tmp_path / "journal.db", tmp_path / "other.db"
    SqliteStore(journal).close()
    os.link(journal, other)
    for name in (journal, other):
        for use in (SqliteStore, JournalLease, open_journal):
            with pytest.raises(FileError, match=r"must have one name, got a file with 2 \(hard links\)"):
                use(name)
    other.unlink()
    SqliteStore(journal).close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 256, "at most 240 bytes, got 256"),
        ("é" * 121, "at most 240 bytes, got 242"),
        ("x/" * 3000, "must have a path that can be opened"),
        ("loop", "must have a path that can be opened"),
        ("a\0b", "must have a path that can be opened"),
        ("journal.runs", "must not be named like a folder of runs"),
    ],
    ids=["long", "bytes", "deep", "loop", "null", "runs"],
)
def test_row_15_a_name_that_no_journal_can_have_is_answered(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for use in (real_path, open_journal, unfinished_files, JournalLease, SqliteStore):
        with pytest.raises(FileError, match=words) as caught:
            use(tmp_path / name)
        assert len(str(caught.value)) < 800


@pytest.mark.parametrize("command", [["jobs"], ["events"], ["cost"], ["cancel", "x"], ["run", "--resume"]])
def test_row_15_a_journal_name_of_256_characters_exits_with_2(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--journal", str(tmp_path / ("x" * 256))]) == 2
    assert "the name of a journal must have at most 240 bytes, got 256" in capsys.readouterr().err
