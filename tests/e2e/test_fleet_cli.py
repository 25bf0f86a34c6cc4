"""`slacktide simulate` of a fleet on a market as a user meets it: one screen, files, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slacktide.cli import run
from tests.unit.app.parts_of_fleets import FLEET, PAST

QUICK = ("--slot", "1h", "--policy", "{patient-spot: {width: 2}}")


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    (tmp_path / "past.csv").write_text(PAST, encoding="utf-8")
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET, encoding="utf-8")
    return str(path)


def test_one_screen_and_all_files(fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, page, table = (str(tmp_path / name) for name in ("month.png", "month.html", "jobs.csv"))
    past = str(tmp_path / "past.csv")
    files = ("--plot", picture, "--report", page, "--csv-jobs", table)
    assert run(["simulate", fleet, "--jobs", past, *QUICK, *files]) == 0
    out, err = capsys.readouterr()
    for words in ("recorded in past.csv", "At one common spend", "patient-spot(width=2)", "straight"):
        assert words in out, words
    for name in (picture, page, table):
        assert f"wrote {name}" in err
        assert Path(name).stat().st_size > 300


def test_json_and_csv_for_programs(fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", fleet, "--hours", "12", "--seed", "2", *QUICK, "--budget", "900 usd/month"]
    assert run([*asked, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["budget_usd"], found["hours"]) == (900, 12)
    assert found["jobs_from"] == "poisson arrivals and fixed sizes, seed 2"
    assert run([*asked, "-o", "csv"]) == 0
    assert capsys.readouterr().out.startswith("policy,mean_response_hours,p95_response_hours,deadlines_met")


def test_a_market_may_be_named_for_a_fleet_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "budget: 600 usd/month\nprice: 3 usd\nclasses: [{name: bert, arrivals: 1/hour, work: 1 gpu-hours}]\n",
        encoding="utf-8",
    )
    asked = ["simulate", str(path), "--market", "synthetic:h100?days=2", "--count", "3", *QUICK, "-o", "json"]
    assert run(asked) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--node-gpus", "8"), "--node-gpus must not be given with a market"),
        (("--hours", "5", "--periods", "1"), "only one of --hours and --periods may be given"),
        (("--start", "99999"), "--start must be in 0..47, the slots of the market"),
        (("--budget", "16 gpus"), "a budget must be money per period"),
        (("--jobs", "past.csv", "--count", "3"), "--count must not be given with --jobs"),
        (("--policy", "patient-spt"), "did you mean 'patient-spot'?"),
        (("--policy", "fifo"), "an allocator must decide about spot and money, got 'fifo'"),
        (("--pool", "nowhere"), "got 'nowhere'"),
        (("--plot", "month.txt"), "must be written to a file that ends in .png"),
        (("--csv-jobs", "nowhere/jobs.csv"), "the folder of a file must exist"),
    ],
)
def test_mistakes_exit_with_2_and_say_what_must_hold(
    fleet: str, options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", fleet, "--slot", "1h", *options]) == 2
    assert words in capsys.readouterr().err


def test_options_of_markets_need_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("budget: 9 gpus\nclasses: [{name: a, arrivals: 1/hour, work: 1 gpu-hours}]\n")
    assert run(["simulate", str(path), "--csv-jobs", "x.csv"]) == 2
    assert "--csv-jobs must come with a market, got none" in capsys.readouterr().err
    assert run(["simulate", str(path), "--slot", "1h"]) == 2
    assert "--slot must come with a market" in capsys.readouterr().err


def test_widths_on_average_need_a_price_and_classes(
    fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["budget", fleet]) == 2
    assert "need the price of a GPU-hour, got only a market" in capsys.readouterr().err
    (tmp_path / "none.yaml").write_text("budget: 9 usd/day\nmarket: synthetic:h100\n", encoding="utf-8")
    assert run(["budget", str(tmp_path / "none.yaml")]) == 2
    assert "must have classes to know its widths, got none" in capsys.readouterr().err
