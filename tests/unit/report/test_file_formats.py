"""Pictures and pages are written in the format of their file's ending, or refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.core.errors import InputError
from slacktide.report.file_formats import check_page, picture_format

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}


@pytest.mark.parametrize("ending", STARTS)
def test_a_picture_is_what_its_ending_says(tmp_path: Path, ending: str) -> None:
    first, again = tmp_path / f"one{ending}", tmp_path / f"two{ending}"
    for path in (first, again):
        assert run(["market", "show", "synthetic:h100?days=2", "--plot", str(path)]) == 0
    assert first.read_bytes().startswith(STARTS[ending])
    if ending != ".svg":  # its ids are drawn by chance
        assert first.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("name", ["plot.jpg", "plot", "plot.html"])
def test_other_endings_are_refused_before_any_work(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backtest", str(tmp_path / "nothing.yaml"), "--plot", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert "a picture must be written to a file that ends in .png, .svg or .pdf" in said
    assert "nothing.yaml" not in said


def test_a_page_is_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_page("page.htm")
    assert run(["backtest", "nothing.yaml", "--report", str(tmp_path / "page.pdf")]) == 2
    assert (
        "a page must be written to a file that ends in .html or .htm, got '.pdf'" in capsys.readouterr().err
    )


def test_a_device_gets_the_usual_format(tmp_path: Path) -> None:
    assert picture_format("/dev/null") == "png"
    with pytest.raises(InputError, match="without an ending"):
        picture_format(tmp_path)
