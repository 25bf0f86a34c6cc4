"""Nothing that a job or a journal says can steer the reader's terminal: seen were raw escapes."""

from __future__ import annotations

import io
import string
from pathlib import Path

import pytest

from slacktide import cli
from slacktide.journal.events import Closed, Opened, SubmissionAsked
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.report.live.screen import Lines, Terminal
from slacktide.report.terminal import settled, visible

EVIL = (
    "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m \x1b[?1049h\x9b5n\x1bc\x08\x07\x00"
    "\x85\u202egnp.exe\x1bP+q\x1b\\\x1b"
)


def is_harmless(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


def test_sequences_go_and_other_controls_are_shown() -> None:
    assert visible(EVIL) == "red \\x08\\x07\\x00\\x85\\u202egnp.exe\\x1b"
    assert visible("naïve – 日本\u3000\xa0\ttab\nline") == "naïve – 日本  \ttab\nline"
    assert visible("\udcff\x7f") == "\\udcff\\x7f"
    assert visible(string.printable[:95]) == string.printable[:95]


@pytest.mark.parametrize("char", [chr(code) for code in [*range(32), *range(127, 160)]])
def test_no_control_character_comes_through(char: str) -> None:
    for text in (char, f"a{char}b", char * 3, f"\x1b{char}", f"\x1b[{char}", f"\x1b]{char}x"):
        assert is_harmless(visible(text))


def test_a_progress_bar_is_shown_as_it_ended() -> None:
    assert settled(" 1%\r50%\r100%\r") == "100%"
    assert (settled("plain"), settled("\r"), settled("")) == ("plain", "", "")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal that somebody else wrote."""
    path = tmp_path / "journal.db"
    with SqliteStore(path) as store:
        store.append(
            [
                Opened(at_hours=0.0, pid=1, host=EVIL, version=EVIL),
                SubmissionAsked(at_hours=0.0, actor="user", key=EVIL, text="", path=EVIL, why=EVIL),
                Closed(at_hours=0.0, why=EVIL),
            ]
        )
    return path


@pytest.mark.parametrize("command", [["events"], ["jobs"], ["logs", EVIL], ["run", EVIL.replace("\0", "")]])
def test_commands_on_a_terminal_print_nothing_that_steers_it(
    command: list[str], journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those that import it first: whoever is imported while it is replaced would keep what replaced it.
    for module in ("commands.jobs", "shared.output"):
        monkeypatch.setattr(f"slacktide.cli.{module}.is_terminal", lambda *, err=False: True)
    cli.run([*command, "--journal", str(journal)])
    told = capsys.readouterr()
    assert told.out + told.err
    assert is_harmless(told.out + told.err)


def test_the_live_view_and_its_lines_are_harmless() -> None:
    from rich.console import Console

    out = io.StringIO()
    Lines(out).print_lines([f"trouble: {EVIL}"])
    assert is_harmless(out.getvalue())
    screen = Terminal(Console(file=io.StringIO()))
    screen.print_lines([f"trouble: {EVIL}"])
    assert all(map(is_harmless, screen._lines))
