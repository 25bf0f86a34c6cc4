"""`python -m campaigns`: what it takes, what it prints, and what it keeps of a finding."""

from __future__ import annotations

import importlib
import io
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from campaigns import __main__ as command
from campaigns.finding import Finding, Tell, evidence


def stand_in(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    """Let every campaign be this function."""
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(run=run))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [(["sorrows"], "a campaign must be one of"), (["kills", "--count", "0"], "--count must be >= 1")],
)
def test_what_cannot_be_meant_exits_with_2(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(words)
    assert left.value.code == 2
    assert complaint in capsys.readouterr().err


def test_every_campaign_runs_in_its_long_form_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[int, int]] = []

    def run(count: int, seed: int, tell: Tell) -> Counter[str]:
        asked.append((count, seed))
        tell("half of it")
        return Counter({"kills": count, "of workers": 7})

    stand_in(monkeypatch, run)
    assert command.main(["kills", "--seed", "3"]) == 0
    assert command.main([]) == 0
    assert asked == [(1000, 3), *((count, 1) for count in command.LONG.values())]
    said = capsys.readouterr()
    assert said.out.startswith("kills, seed 3: 1,000 kills, 7 of workers; nothing found in ")
    assert "half of it" in said.err


def test_the_first_finding_ends_it_with_what_it_takes_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(count: int, seed: int, tell: Tell) -> Counter[str]:
        with evidence("kills", seed + 4, 25) as folder:
            (folder / "journal.db").write_text("the evidence", encoding="utf-8")
            raise Finding("a job succeeded with nothing done")

    stand_in(monkeypatch, run)
    assert command.main(["kills", "money"]) == 1
    first, again, kept = capsys.readouterr().out.splitlines()
    assert first == "kills: FOUND a job succeeded with nothing done"
    assert again.split(":", 1)[1].strip() == "python -m campaigns kills --count 25 --seed 5"
    folder = Path(kept.split(":", 1)[1].strip())
    assert (folder / "journal.db").read_text(encoding="utf-8") == "the evidence"
    (folder / "journal.db").unlink()
    folder.rmdir()


def test_a_round_without_a_finding_leaves_nothing() -> None:
    with evidence("kills", 1, 25) as folder:
        assert folder.is_dir()
    assert not folder.exists()


def test_progress_is_one_line_on_a_terminal_and_now_and_then_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, file = Terminal(), io.StringIO()
    for out in (terminal, file):
        progress = command.Progress(out)
        progress("one")
        progress("two")
        progress.clear()
    assert terminal.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K"
    assert file.getvalue() == "one\n"
