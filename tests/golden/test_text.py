"""What commands print as plain text and CSV, byte for byte: tables, decisions, bills, lists and events."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.cli import run

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
H100, V100 = (f"synthetic:{name}?days=12&slot=1h&seed=4" for name in ("h100", "v100"))
EXAMPLES = {"llama-lora": H100, "one-v100": V100, "soft-deadline": H100, "discrete-widths": H100}
JOURNALS = {"finished": "finished", "cancelled": "cancelled", "stream": "two", "whole-slots": "whole-slots"}
"""Older journals, and one job of each."""


@pytest.fixture
def printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Return what a command prints where no terminal reads it."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))

    def answer(*words: str) -> str:
        assert run(list(words)) == 0
        return capsys.readouterr().out

    return answer


@pytest.mark.parametrize("example", EXAMPLES)
def test_tables_of_a_back_test(
    example: str, printed: Callable[..., str], golden: Callable[[Path, str], None]
) -> None:
    words = (f"examples/{example}.yaml", "--market", EXAMPLES[example], "--starts", "3")
    told = printed("backtest", *words, "-v") + printed("backtest", *words, "-o", "csv")
    golden(FOLDER / "text" / f"backtest-{example}.txt", told)


@pytest.mark.parametrize("journal", JOURNALS)
def test_lines_of_a_journal(
    journal: str, tmp_path: Path, printed: Callable[..., str], golden: Callable[[Path, str], None]
) -> None:
    copy = str(shutil.copy(FOLDER / "journals" / f"{journal}.db", tmp_path))
    commands = (("jobs",), ("cost", JOURNALS[journal]), ("events",), ("events", JOURNALS[journal]))
    told = "\n".join(printed(*command, "--journal", copy) for command in commands)
    golden(FOLDER / "text" / f"journal-{journal}.txt", told)
