"""`slacktide reproduce budget`: everything is written, can be read, and comes out the same again."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from slacktide.cli import run
from slacktide_papers.budget.cases import QUICK, USUAL, Machines
from slacktide_papers.budget.experiments import run as experiments
from slacktide_papers.budget.page import write_budget_reproduction

SEED = 3
PICTURES = ("paper", "widths", "mixes", "autoscaling", "ratios", "machines", "epochs")
TABLES = (
    "paper", "mixes", "autoscaling", "machines", "epochs", "widths", "checks", "ratios", "contests", "costs",
    "epoch-contests",
)  # fmt: skip
TINY = QUICK._replace(
    jobs=60, synthetic_jobs=40, budgets=5, clusters=(2.0,), efficiencies=(0.8, 0.4), widths=(1, 4),
    cluster_widths=(1, 4), steps=(Machines(node_gpus=2),), draws=1, targets=(0.7, 0.3),
)  # fmt: skip


class Made(NamedTuple):
    """What a command wrote, and what it printed."""

    folder: Path
    printed: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A reproduction as the command line makes it, too small to mean anything."""
    out = tmp_path_factory.mktemp("tiny") / "first"
    words = ["--quick", "--seed", str(SEED), "--restart", "1m", "--out", str(out), "-o", "json"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.delenv("SLACKTIDE_DATA", raising=False)
        patch.setattr("slacktide_papers.budget.experiments.QUICK", TINY)
        assert run(["reproduce", "budget", *words]) == 0
    return Made(out, printed.getvalue())


@pytest.fixture
def tiny(made: Made) -> Path:
    """The folder that was written."""
    return made.folder


def test_everything_is_written(tiny: Path) -> None:
    names = {path.name for path in tiny.iterdir()}
    wanted = {f"{name}.png" for name in PICTURES} | {f"{name}.csv" for name in TABLES}
    assert names == wanted | {"index.html", "reproduction.json"}
    assert all((tiny / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in PICTURES)


def test_page_needs_nothing_else_and_says_the_claim(tiny: Path) -> None:
    text = (tiny / "index.html").read_text(encoding="utf-8")
    assert "1.6 to 2 times lower" in text
    assert "is not measured but assumed" in text
    assert text.count("data:image/png;base64,") == len(PICTURES)
    assert not re.search(r"https?://|<script|(?:src|href)=\"(?!data:)", text)


def test_nobody_is_below_the_bound(tiny: Path) -> None:
    for name in ("paper", "mixes", "autoscaling", "machines", "epochs"):
        with (tiny / f"{name}.csv").open(encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        assert lines
        assert all(float(line["over_bound"]) >= 1 - 1e-9 for line in lines)


def test_same_seed_same_files(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACKTIDE_DATA", raising=False)
    again = experiments(TINY, SEED, None, USUAL._replace(restart_hours=1 / 60))
    for path in write_budget_reproduction(again, tmp_path / "second"):
        assert path.read_bytes() == (tiny / path.name).read_bytes(), path.name


def test_json_is_printed_and_names_the_files(made: Made) -> None:
    document = json.loads(made.printed)
    assert (document["reproduction"], document["quick"]) == ("budget", True)
    assert document["machines"] == "restart 1m, nodes of 4, 1m30s to come"
    assert json.loads((made.folder / "reproduction.json").read_text()).items() <= document.items()
    assert all(Path(file).exists() for file in document["files"])


@pytest.mark.parametrize(
    "arguments",
    [("--seed", "-1"), ("--data", "nowhere"), ("--node-gpus", "0"), ("--restart", "soon")],
    ids=lambda arguments: arguments[0],
)
def test_bad_input_is_refused(
    arguments: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "budget", "--quick", "--out", str(tmp_path / "out"), *arguments]) == 2
    assert capsys.readouterr().err.startswith("slacktide: error: ")
    assert not (tmp_path / "out").exists()


def test_folders_of_others_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("dear")
    assert run(["reproduce", "budget", "--quick", "--out", str(tmp_path)]) == 2
    assert "--force" in capsys.readouterr().err
