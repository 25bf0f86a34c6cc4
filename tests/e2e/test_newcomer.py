"""What newcomers get wrong is answered at once, in words that say what must hold and what came."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slacktide.app.jobs.requests import LONGEST_KEY
from slacktide.cli import run
from slacktide.core.errors import InputError
from slacktide.journal.codec.codec import parse

JOB = """\
name: first
run: "true"
resources: {accelerators: H100:1..2}
work: 2 gpu-hours
deadline: 6h
policy: on-demand
market: synthetic:h100?days=5&slot=30m&seed=4
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    return tmp_path


POLICY = "{stochastic-horizon: {%s}}"
REFUSED = {
    "a controller without its market": (
        ["controller", "--market", "nope.csv"],
        "nope.csv: a market file must exist",
    ),
    "a controller with a job file for a fleet": (["controller", "--fleet", "job.yaml"], "job.yaml"),
    "a speed beyond any clock": (
        ["run", "job.yaml", "-y", "--speed", "1e12"],
        "speed must be > 0 and < 1e+09, got 1e+12",
    ),
    "fewer starts than one": (
        ["backtest", "job.yaml", "--starts", "-3"],
        "--starts must be a whole number >= 1, or every:DURATION such as every:2h, got '-3'",
    ),
    "a journal to resume that is not there": (
        ["run", "--resume", "--journal", "none.db"],
        "none.db: a journal to resume must exist, found none",
    ),
    "text for a number": (
        ["plan", "job.yaml", "--policy", POLICY % "cells: banana"],
        "policy 'stochastic-horizon': cells must be a whole number, got 'banana'",
    ),
    "true for a number": (
        ["plan", "job.yaml", "--policy", POLICY % "refit_hours: true"],
        "policy 'stochastic-horizon': refit_hours must be a number, got True",
    ),
    "a function for a policy": (["policies", "--check", "os:system"], "'os:system' must be a class"),
    "an empty key": (["submit", "job.yaml", "--key", ""], f"a key must be 1 to {LONGEST_KEY} printable"),
    "a key that is too long": (
        ["submit", "job.yaml", "--key", "k" * (LONGEST_KEY + 1)],
        f"of {LONGEST_KEY + 1}; leave it out to have one made",
    ),
    "a rank below 0": (["logs", "first", "--rank", "-1"], "-1 is not in the range x>=0"),
    "a page in a folder that is not there": (
        ["backtest", "job.yaml", "--report", "away/x.html"],
        "the folder of a file must exist, found no away",
    ),
    "a picture in a folder that is not there": (
        ["plan", "job.yaml", "--plot", "away/x.png"],
        "the folder of a file must exist, found no away",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_at_once(what: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, words = REFUSED[what]
    assert run(command) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (here / "away").exists()


def test_a_starter_file_says_where_the_command_runs(here: Path) -> None:
    assert run(["init", "mine.yaml"]) == 0
    text = (here / "mine.yaml").read_text(encoding="utf-8")
    assert "by default the folder of this file" in text
    assert "Saves nothing? Delete this line" in text


def test_a_plan_promises_no_checkpoint_to_a_job_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "job.yaml"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "a job that is not done at its deadline stops (after_deadline: stop)" in text
    assert "instead of 100%" not in text


def test_a_journal_without_jobs_cannot_be_resumed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty.db").touch()
    assert run(["run", "--resume", "--journal", "empty.db"]) == 2
    assert "an unfinished job must exist, got a journal without any job" in capsys.readouterr().err


@pytest.mark.parametrize("line", ['{"a": 1 "b": 2}', "{", "", "[" * 100_000])
def test_a_damaged_event_is_told_without_words_of_python(line: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(line)
    assert str(refused.value).startswith("an event must be JSON, got ")
    assert not re.search("Expecting|recursion|delimiter|column", str(refused.value))


def test_a_bill_whose_market_is_gone_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    market = here / "m.csv"
    assert run(["market", "synthesize", "h100", str(market), "--days", "5", "--seed", "3"]) == 0
    (here / "job.yaml").write_text(JOB.replace("synthetic:h100?days=5&slot=30m&seed=4", "m.csv"))
    assert run(["run", "job.yaml", "-y", "--speed", "3600", "--journal", "j.db"]) == 0
    market.unlink()
    capsys.readouterr()
    assert run(["cost", "first", "--journal", "j.db"]) == 0
    out, err = capsys.readouterr()
    assert out.count("unknown: the market cannot be read") == 2
    assert "m.csv: a market file must exist" in err
