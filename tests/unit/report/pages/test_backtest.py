"""The page stands alone, shows everything, and runs nothing that a name smuggles in."""

from __future__ import annotations

import os
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from slacktide.core.errors import InputError
from slacktide.core.files import write_whole
from slacktide.report import words
from slacktide.report.pages.backtest import page
from slacktide.results.comparison import Comparison

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Reads a page and notes tags, attributes and any tag that is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def odd_page(odd: Comparison) -> str:
    """The page of each odd back-test, drawn once for all who look at it."""
    return page(odd)


def test_page_of_every_back_test_is_well_formed_and_alone(odd: Comparison, odd_page: str) -> None:
    text, reader = odd_page, read(odd_page)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "i"}
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name == "src"]
    assert all(value.startswith("#") for name, value in reader.attributes if name.endswith("href"))
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert len(reader.ids) == len(set(reader.ids))
    assert "\x1b" not in text
    assert not re.search(r"\b(nan|inf|None)\b", reader.text)
    for one in odd.summary:
        assert escape(one.policy) in text
    assert text.count("<details>") == len(odd.detail) + 1


def test_page_tells_question_verdict_and_assumptions(comparison: Comparison) -> None:
    text = read(page(comparison)).text
    assert "30 GPU-hours of work within 8h on 1..8 GPUs." in text
    assert "starts and paid" in text
    assert "The on-demand price was not in the file." in text
    for told in (
        "clairvoyant knows",
        "checkpoints just before every loss",
        "deadline guard",
        "After the last slot",
    ):
        assert told in text
    for run in comparison.detail:
        assert run.decisions[0].reason.rule in text


def test_late_runs_are_pointed_out(odd: Comparison, odd_page: str) -> None:
    late = any(not run.on_time for run in odd.runs)
    assert ('<span class="late">' in odd_page) == late


def test_report_is_written_whole_into_a_new_folder(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "report.html"
    write_whole(path, page(comparison).encode())
    write_whole(str(path), page(comparison).encode())
    assert path.read_text(encoding="utf-8") == page(comparison)
    assert os.listdir(path.parent) == ["report.html"]


def test_folders_and_impossible_paths_are_refused(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got a folder"):
        write_whole(tmp_path, page(comparison).encode())
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be writable"):
        write_whole(tmp_path / "file" / "report.html", page(comparison).encode())


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_names_lose_what_tears_a_line() -> None:
    assert words.plain("a\n\x1b[31mb\u202e c") == "a [31mb c"
    assert words.plain("abcdef", 4) == "abc…"
