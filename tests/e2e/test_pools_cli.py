"""Commands over many pools: back-tests, plans and `market show`, as a user types them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from slacktide.app.markets.market import MarketSpec
from slacktide.cli import run as slacktide
from slacktide.files.job import read_job_file
from slacktide.policies.pools.roaming_horizon import RoamingHorizon
from slacktide.simulation.plain import guarded, run_over_pools
from slacktide.simulation.pool_options import PoolOptions

MARKET = "synthetic:h100?pools=3&days=4"
JOB = """name: gang
run: python train.py
resources: {accelerators: H100:4}
work: 12 gpu-hours
deadline: 6h
restart: 6m
checkpoint: {dir: ckpt, every: 10m, size: 50 GB}
"""
NAMED = JOB.replace(
    "{accelerators: H100:4}",
    "{any_of: [{accelerators: H100:4, infra: h100-1}, {accelerators: H100:4, infra: h100-3}]}",
)


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(JOB + f"market: {MARKET}\n")
    return str(path)


@pytest.fixture
def named(tmp_path: Path) -> str:
    path = tmp_path / "named.yaml"
    path.write_text(NAMED + f"market: {MARKET}\n")
    return str(path)


class Result(NamedTuple):
    """What a command came to."""

    exit_code: int
    stdout: str
    stderr: str


Call = Callable[..., Result]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def called(*words: str) -> Result:
        code = slacktide(list(words))
        return Result(code, *capsys.readouterr())

    return called


@pytest.fixture
def told(call: Call) -> Callable[..., str]:
    def said(*words: str) -> str:
        result = call(*words)
        assert result.exit_code == 0, result
        return result.stdout

    return said


def test_a_back_test_over_pools_is_what_python_says(told: Callable[..., str], job: str) -> None:
    found = json.loads(
        told("backtest", job, "--policy", "uniform-progress,roaming-horizon", "--starts", "2", "-o", "json")
    )
    file = read_job_file(job)
    ground = PoolOptions.of(file.job, file.gpu, MarketSpec(source=MARKET).open())
    acting = guarded(RoamingHorizon(), file.job)
    mine = [one for one in found["runs"] if one["policy"] == "roaming-horizon"]
    assert len(mine) == 2
    for one in mine:
        alone = run_over_pools(ground, acting, start=one["start_slot"])
        assert one["cost_usd"] == pytest.approx(alone.cost_usd, abs=0.005)
        assert one["stays"] == [stay._asdict() for stay in alone.stays]
        assert (one["pool"], one["moves"]) == (None, alone.moves)
    rows = {one["policy"]: one for one in found["summary"]}
    assert list(rows) == [
        "uniform-progress", "roaming-horizon", "clairvoyant in the pool", "clairvoyant over pools",
    ]  # fmt: skip
    assert rows["roaming-horizon"]["pool"] is None
    assert rows["uniform-progress"]["pool"] in {"h100-1", "h100-2", "h100-3"}
    assert len(found["fixed_pools"]) == 6
    assert found["sight"] == "feed"


def test_a_job_that_names_pools_is_tried_in_them_alone(
    told: Callable[..., str], named: str, tmp_path: Path
) -> None:
    picture, page = tmp_path / "run.png", tmp_path / "run.html"
    text = told(
        "backtest", named, "--policy", "on-demand,roaming-horizon", "--starts", "2", "--sight", "tried", "-v",
        "--plot", str(picture), "--report", str(page),
    )  # fmt: skip
    assert "clairvoyant over pools" in text
    assert "h100-2" not in text
    assert "roaming-horizon in 2 pools" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = page.read_text()
    assert "Every policy in every pool" in shown
    assert "what tries showed" in shown


def test_every_run_of_a_csv_says_where_it_was(told: Callable[..., str], job: str) -> None:
    text = told("backtest", job, "--policy", "on-demand,roaming-horizon", "--starts", "1", "-o", "csv")
    rows = {row["policy"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["roaming-horizon"]["pool"] == ""
    assert all(row["stays"] and row["moves"] != "" and row["move_usd"] != "" for row in rows.values())
    assert rows["on-demand"]["stays"].startswith(f"{rows['on-demand']['pool']} 0..")


def test_work_that_is_spread_comes_to_the_same(told: Callable[..., str], job: str) -> None:
    words = ("backtest", job, "--policy", "roaming-horizon", "--starts", "2", "-o", "json")
    assert told(*words) == told(*words, "--on", "processes:2")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--pool", "h100-9"), "h100-9"),
        (("--sight", "guessed"), "--sight"),
        (("--policy", "roaming-horizonn"), "roaming-horizon"),
    ],
)
def test_what_a_back_test_cannot_mean_exits_with_2(
    call: Call, job: str, more: tuple[str, ...], said: str
) -> None:
    result = call("backtest", job, "--starts", "1", *more)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_pool_that_the_job_may_not_use_exits_with_2(call: Call, named: str) -> None:
    result = call("backtest", named, "--pool", "h100-2")
    assert result.exit_code == 2
    assert "must fit at least one pool" in result.stderr


def test_a_pool_that_the_market_does_not_have_exits_with_2(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(NAMED.replace("h100-1", "mars-1").replace("h100-3", "mars-2") + f"market: {MARKET}\n")
    for command in ("backtest", "plan"):
        result = call(command, str(path))
        assert result.exit_code == 2, command
        assert "must fit at least one pool" in result.stderr


def test_market_show_compares_pools(told: Callable[..., str]) -> None:
    text = told("market", "show", MARKET)
    assert "A move costs 0.02 USD per GB" in text
    assert "--pool NAME" in text
    assert "losses a day" not in text
    alone = told("market", "show", MARKET, "--pool", "h100-1")
    assert "losses a day" in alone
    assert "A move costs" not in alone


def test_a_plan_over_pools_is_one_screen(told: Callable[..., str], named: str, tmp_path: Path) -> None:
    picture, page = tmp_path / "plan.png", tmp_path / "plan.html"
    text = told("plan", named, "--plot", str(picture), "--report", str(page))
    assert len(text.splitlines()) <= 40
    for part in ("with roaming-horizon over 2 pools", "Start", "Moving", "USD per GB", "futures were run"):
        assert part in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in page.read_text()
    found = json.loads(told("plan", named, "-o", "json"))
    assert found["pool"] in {"h100-1", "h100-3"}
    assert found["outlooks"][-1]["policy"] == "clairvoyant over pools"


def test_a_plan_of_a_job_that_names_pools_may_be_for_one_of_them(
    told: Callable[..., str], call: Call, named: str
) -> None:
    assert "in h100-3" in told("plan", named, "--pool", "h100-3")
    assert call("plan", named, "--pool", "h100-2").exit_code == 2
