"""`slacktide speedup` as a user meets it: points in, a line to paste out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slacktide.cli import run
from slacktide.files.fleet.fleet import parse_fleet

ROOT = Path(__file__).parents[2]
DATA = str(ROOT / "examples" / "speedup.csv")
FLEET = "budget: 99 gpus\nclasses:\n- name: a\n  arrivals: 1/hour\n  work: 1 gpuh\n  "


def fitted(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["speedup", "fit", *arguments, "-o", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_one_series_shows_its_points_its_forms_and_what_to_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "fit.png"
    assert run(["speedup", "fit", DATA, "--where", "model=vit", "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    for words in ("vit", "amdahl", "power", "linear", "table", "speedup: {amdahl: 0.95", "9.9 % under 2.8"):
        assert words in out
    assert "nothing beyond 16 GPUs" in out
    assert f"wrote {picture}" in err
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_several_series_are_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "fit.png"
    assert run(["speedup", "fit", DATA, "--group", "model", "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.count("speedup: {amdahl") == out.count("speedup: {table") == 2
    assert "vit: not concave" in out
    assert picture.exists()


def test_json_has_the_documented_keys_and_lines_that_can_be_pasted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = fitted(capsys, DATA, "--group", "model")
    assert set(document) == {"source", "series"}
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    part = text.split("## slacktide speedup fit\n")[1].split("\n## ")[0]
    for series in document["series"]:
        for key in (*series, *series["points"][0], *series["forms"][0], *series["table"]):
            assert f"`{key}`" in part
        for form in (*series["forms"], series["table"]):
            (pasted,) = parse_fleet(FLEET + form["yaml"] + "\n").classes
            assert pasted.job.speedup(1) == pytest.approx(1, abs=0.2)
    assert [series["group"] for series in document["series"]] == [{"model": "bert"}, {"model": "vit"}]


def test_a_series_that_does_not_begin_at_one_gpu_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("accelerator,n_acc,minutes\nH100,8,60\nH100,16,32\nH100,32,18\n")
    (series,) = fitted(capsys, str(path))["series"]
    assert series["narrowest_gpus"] == 8
    assert series["points"][0]["speedup"] == 8
    assert any("the narrowest width is 8 GPUs, not 1" in note for note in series["notes"])


def test_a_group_with_one_width_is_left_out_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("model,gpus,throughput\na,1,10\na,2,19\nb,1,10\n")
    assert run(["speedup", "fit", str(path), "--group", "model"]) == 0
    assert "left out, only one width was measured: b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.csv"], "none.csv: must be a readable file"),
        ([DATA], "rows of one width must be repeats"),
        ([DATA, "--where", "model"], "--where must be written COLUMN=VALUE"),
        ([DATA, "--where", "model=vit", "--where", "model=bert"], "name a column once"),
        ([DATA, "--where", "model=gpt"], "model must be one of bert, vit, got 'gpt'"),
        ([DATA, "--where", "mode=vit"], "did you mean 'model'?"),
        ([DATA, "--group", "mdl"], "did you mean 'model'?"),
        ([DATA, "--group", "model", "--rate", "gpus", "--time", "gpus"], "got both"),
        ([DATA, "--group", "model,gpus"], "at least two widths must be measured"),
        ([str(ROOT / "pyproject.toml")], "a row must have 1 cells like the header"),
        ([DATA, "--group", "model", "--plot", str(ROOT)], "must be written to a file that ends in"),
    ],
)
def test_mistakes_are_answered(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert run(["speedup", "fit", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_group_lists_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["speedup", "--help"]) == 0
    assert "fit" in capsys.readouterr().out
