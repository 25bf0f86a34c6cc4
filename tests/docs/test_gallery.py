"""The stories of the gallery can be followed: their commands run, and their pictures are theirs."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image

from slacktide import read_job_file
from slacktide.cli import run, slacktide
from tools.gallery import PAGES, commands, pictures, retold, write_files
from tools.pictures import COLORS, shrink

MOST_BYTES = 150_000
FEWER = {"12": "2", "24": "2", "4": "2"}
"""Counts of starts that a page names, and fewer, which go the same ways in less time."""
RUN = ("policies", "backtest")
"""Commands that are run here; others are run by the tests of README and how-to pages, and only read here."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_story_can_be_followed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(page, tmp_path)
    for said in commands(page):
        slacktide.make_context("slacktide", list(said))
        command = slacktide.get_command(click.Context(slacktide, **slacktide.context_settings), said[0])
        assert command is not None
        command.make_context(said[0], list(said[1:]))  # raises where an option or a file is not there
        arguments = [FEWER.get(word, word) for word in said]
        if said[0] in RUN:
            assert run(arguments) == 0, f"slacktide {shlex.join(arguments)}"
    for path in tmp_path.glob("*.yaml"):
        read_job_file(path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_are_drawn_by_a_command_of_their_page_and_small(page: Path) -> None:
    drawn = {word for words in commands(page) for word in words}
    assert pictures(page)
    for name in pictures(page):
        assert name in drawn, f"no command of {page.name} draws {name}"
        assert (page.parent / name).stat().st_size <= MOST_BYTES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_with_an_output_is_retold(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    asked: list[str] = []
    retold(text, lambda command: asked.append(command) or "")  # type: ignore[func-returns-value]
    assert [shlex.split(command) for command in asked] == commands(page)
    assert "```text\n```" not in text, f"{page.name} lacks an output; make pictures"


def test_what_a_command_prints_replaces_what_stood_there() -> None:
    page = "```console\n$ slacktide jobs\n```\n\n<!-- first 1 lines -->\n```text\nold\n```\nafter\n"
    assert retold(page, lambda command: f"{command}\nmore\n") == page.replace("old", "jobs\n...")


def test_a_small_dot_keeps_its_color_in_a_picture_of_few(tmp_path: Path) -> None:
    drawn = np.random.default_rng(3).integers(0, 80, (200, 200, 3), dtype=np.uint8)
    drawn[:90], drawn[5:10, 5:10] = (255, 255, 255), (0, 158, 115)
    Image.fromarray(drawn).save(tmp_path / "drawn.png")
    shrink(tmp_path / "drawn.png", tmp_path / "small.png")
    with Image.open(tmp_path / "small.png") as small:
        assert small.mode == "P"
        kept = np.asarray(small.convert("RGB"))
    assert np.array_equal(kept[:90], drawn[:90])
    assert len(np.unique(kept.reshape(-1, 3), axis=0)) <= COLORS
