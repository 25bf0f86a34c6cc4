"""`slacktide learn` as a user meets it: shown, taught, drawn, forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slacktide.cli import run
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.state_file import load, save

ROOT = Path(__file__).parents[2]
JOB = str(ROOT / "examples" / "llama-lora.yaml")
MARKET = "synthetic:h100?days=5&slot=30m&seed=5"
ARMS = ("uniform-progress", "maximal-spot", "on-demand")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state over few policies, so that nothing waits for the slow ones."""
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    path = tmp_path / "home" / "learn.json"
    save(Hedge(ARMS), path)
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["learn", *arguments, "-o", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_without_a_state_it_shows_the_first_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    assert run(["learn"]) == 0
    out = capsys.readouterr().out
    for words in (
        "nothing learned yet",
        "'policy: auto' is stochastic-horizon",
        "50.0%",
        "slacktide learn JOB",
    ):
        assert words in out
    assert list(tmp_path.iterdir()) == []
    assert len(shown(capsys, "--pool-of", "paper")["arms"]) == 112


def test_it_is_taught_and_says_so(state: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "learn.png"
    assert run(["learn", JOB, "--market", MARKET, "--jobs", "30", "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    for words in ("after 30 jobs", "of the trust", "uniform-progress", "cannot exceed", "leaders:"):
        assert words in out
    assert f"wrote {picture}" in err
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = load(state)
    assert found is not None
    assert (found.ended, found.open) == (30, {})


def test_json_has_the_documented_keys(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = shown(capsys, JOB, "--market", MARKET, "--jobs", "8")
    assert set(document) == {
        "state", "jobs", "open", "rate", "eta", "leader", "regret", "arms", "leaders",
    }  # fmt: skip
    assert set(document["regret"]) == {"best", "expected", "realised", "bound", "delay"}
    assert all(set(arm) == {"policy", "weight", "prior", "mean_utility"} for arm in document["arms"])
    weights = [arm["weight"] for arm in document["arms"]]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1.0)
    assert document["leaders"][0]["jobs"] == 0
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    part = text.split("## slacktide learn\n")[1].split("\n## ")[0]
    keys = {*document, *document["regret"], *document["arms"][0], *document["leaders"][0]}
    assert all(f"`{key}`" in part for key in keys)


def test_teaching_twice_adds_up_and_the_seed_repeats(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teach = (JOB, "--market", MARKET, "--jobs", "6", "--seed", "3")
    first = shown(capsys, *teach)
    other = tmp_path / "other.json"
    save(Hedge(ARMS), other)
    assert {**shown(capsys, *teach, "--state", str(other)), "state": ""} == {**first, "state": ""}
    assert shown(capsys, *teach)["jobs"] == 12


def test_forgetting_needs_a_yes(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", JOB, "--market", MARKET, "--jobs", "2"]) == 0
    assert run(["learn", "--reset"]) == 2
    assert "must be confirmed" in capsys.readouterr().err
    assert state.exists()
    assert run(["learn", "--reset", "-y"]) == 0
    assert "nothing learned yet" in capsys.readouterr().out
    assert not state.exists()
    assert run(["learn", "--reset"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pool-of", "paper"], "must have been learned over the pool 'paper'"),
        ([JOB, "--jobs", "0"], "jobs must be >= 1"),
        ([JOB, "--market", "synthetic:h100?days=0.25"], "must cover the deadline"),
        (["--plot", "x.png"], "at least one job"),
        (["missing.yaml"], "missing.yaml"),
        (["--state", str(ROOT / "pyproject.toml")], "must be a learned state"),
    ],
)
def test_mistakes_are_answered(
    state: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["learn", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_infeasible_job_teaches_nothing(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(JOB).read_text(encoding="utf-8").replace("deadline: 16h", "deadline: 2h")
    (tmp_path / "job.yaml").write_text(text)
    assert run(["learn", str(tmp_path / "job.yaml"), "--market", MARKET]) == 3
    assert "cannot be met" in capsys.readouterr().err
