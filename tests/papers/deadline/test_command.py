"""`slacktide reproduce deadline`: everything is written, can be read, and comes out the same again."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide_papers.deadline import places
from slacktide_papers.deadline.experiments import run as experiments
from slacktide_papers.deadline.page import write_reproduction

SEED = 3
EXPERIMENTS = ("tightness", "volatility", "noise", "parameters", "selection")
TINY = places.QUICK._replace(
    days=4.0, starts=2, slow_starts=1, deadlines_hours=(12.0,), factors=(1.0,), levels=(0.0, 1.0),
    thresholds=(0.3, 0.9), jobs=12, job_starts=3, every_arm=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick reproduction, as the command line writes it, but smaller."""
    out = tmp_path_factory.mktemp("quick") / "reproduction"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SLACKTIDE_DATA", raising=False)
        patch.setattr("slacktide_papers.deadline.experiments.QUICK", TINY)
        assert run(["reproduce", "deadline", "--quick", "--seed", str(SEED), "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_everything_is_written(written: Path) -> None:
    names = {path.name for path in written.iterdir()}
    assert {f"{name}.{kind}" for name in EXPERIMENTS for kind in ("csv", "png")} <= names
    assert {"index.html", "gains.csv", "selection-summary.csv", "reproduction.json"} <= names
    assert all((written / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in EXPERIMENTS)


@pytest.mark.slow
def test_tables_parse_and_shares_are_shares(written: Path) -> None:
    for name in EXPERIMENTS[:4]:
        with (written / f"{name}.csv").open(encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        assert lines
        # The clairvoyant's own error is below a thousandth of the value.
        assert all(float(line["share"]) < 1.02 for line in lines)
        assert all(0.0 <= float(line["on_time_share"]) <= 1.0 for line in lines)


@pytest.mark.slow
def test_regret_keeps_its_bound(written: Path) -> None:
    with (written / "selection-summary.csv").open(encoding="utf-8") as file:
        ends = [line for line in csv.DictReader(file) if line["rate"] == "paper"]
    assert len(ends) == 4
    assert all(float(line["regret"]) <= float(line["paper_bound"]) for line in ends)


@pytest.mark.slow
def test_page_needs_nothing_else_and_says_the_papers_figure(written: Path) -> None:
    text = (written / "index.html").read_text(encoding="utf-8")
    assert "54.8 %" in text
    assert text.count("data:image/png;base64,") == 5
    assert not re.search(r"https?://|<script|(?:src|href)=\"(?!data:)", text)


@pytest.mark.slow
def test_a_reproduction_may_be_written_over_and_anything_else_not(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("dear")
    assert run(["reproduce", "deadline", "--quick", "--out", str(tmp_path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    document = json.loads((written / "reproduction.json").read_text(encoding="utf-8"))
    assert (document["reproduction"], document["quick"]) == ("deadline", True)


@pytest.mark.slow
def test_same_seed_same_files(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACKTIDE_DATA", raising=False)
    places.synthetic.cache_clear()
    files = write_reproduction(experiments(TINY, SEED, None), tmp_path / "second")
    assert {path.name for path in files} == {path.name for path in written.iterdir()}
    for path in files:
        assert path.read_bytes() == (written / path.name).read_bytes(), path.name


@pytest.mark.parametrize("arguments", [("--seed", "-1"), ("--data", "nowhere")])
def test_bad_input_is_refused(
    arguments: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "deadline", "--quick", "--out", str(tmp_path / "out"), *arguments]) == 2
    assert capsys.readouterr().err.startswith("slacktide: error: ")
    assert not (tmp_path / "out").exists()
