"""The command line as a user meets it: results on stdout, one line and the right code for a mistake."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slacktide.app.planning.backtest import usual_policies
from slacktide.cli import run
from slacktide.files.job import parse_job
from slacktide.policies.base import policies
from slacktide.policies.selection.policy_set import DEFAULT_POLICIES

ROOT = Path(__file__).parents[2]
JOB = str(ROOT / "examples" / "llama-lora.yaml")
MARKET = "synthetic:h100?days=4&slot=30m&seed=5"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for name in ("backtest", "market", "plan", "policies"):
        assert name in out


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("slacktide 0.")


def test_unknown_command_is_answered_with_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backtst"]) == 2
    assert "did you mean 'backtest'" in capsys.readouterr().err


def backtest_json(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert run([*TRY, "--starts", "3", "-o", "json", *more]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_backtest_prints_the_documented_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = backtest_json(capsys)
    assert set(document) == {"job", "market", "runs", "summary"}
    names = [row["policy"] for row in document["summary"]]
    assert names == ["on-demand", "maximal-spot", "uniform-progress", "stochastic-horizon", "clairvoyant"]
    keys = {
        "policy", "start_slot", "cost_usd", "utility_usd", "finish_hours", "on_time", "spot_gpu_hours",
        "on_demand_gpu_hours",
    }  # fmt: skip
    assert len(document["runs"]) == 15
    assert all(keys <= set(row) for row in document["runs"])
    keys = {"policy", "mean_cost_usd", "mean_utility_usd", "on_time_share", "cost_over_clairvoyant"}
    assert all(keys <= set(row) for row in document["summary"])


def test_backtest_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    document = backtest_json(capsys)
    cheapest = {
        row["start_slot"]: row["cost_usd"] for row in document["runs"] if row["policy"] == "clairvoyant"
    }
    for row in document["runs"]:
        assert row["on_time"]
        assert row["cost_usd"] >= cheapest[row["start_slot"]] * 0.999
    for summary in document["summary"]:
        costs = [row["cost_usd"] for row in document["runs"] if row["policy"] == summary["policy"]]
        assert math.isclose(summary["mean_cost_usd"], sum(costs) / len(costs))


def test_backtest_takes_policies_with_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    document = backtest_json(
        capsys, "--policy", "on-demand,maximal-spot", "--policy", "{uniform-progress: {gang: true}}"
    )
    names = [row["policy"] for row in document["summary"]]
    assert names == ["on-demand", "maximal-spot", "uniform-progress(gang=True)", "clairvoyant"]


def test_a_common_policy_written_in_full_is_tried_once() -> None:
    written = "resources: {accelerators: H100:1..8}\nwork: 4 gpu-hours\ndeadline: 2h\npolicy: "
    for policy, more in (("{uniform-progress: {gang: false}}", 0), ("{uniform-progress: {gang: true}}", 1)):
        found = usual_policies(parse_job(written + policy))
        assert len(found) == len(DEFAULT_POLICIES) + more


def test_backtest_prints_a_table_and_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRY, "--starts", "2", "-v"]) == 0
    out = capsys.readouterr().out
    assert "uniform-progress" in out
    assert "clairvoyant" in out
    assert "take-spot" in out


def test_backtest_prints_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRY, "--starts", "2", "-o", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 5
    assert lines[0].startswith("policy,")


def test_a_truth_apart_from_the_file_is_said_and_met_by_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = ("--policy", "on-demand,uniform-progress")
    document = backtest_json(capsys, *tried, "--truth", "work=0.5..1,speed=0.9,seed=3")
    assert document["truth"] == {"work": [0.5, 1.0], "speed": [0.9, 0.9], "later": [1.0, 1.0], "seed": 3}
    drawn = {(row["start_slot"], row["true_work"], row["true_speed"]) for row in document["runs"]}
    assert len(drawn) == 3
    assert all(0.5 <= work <= 1.0 and speed == pytest.approx(0.9) for _, work, speed in drawn)
    assert backtest_json(capsys, *tried, "--truth", "work=1.1")["truth"] == {
        "work": 1.1, "speed": 1.0, "later": 1.0,
    }  # fmt: skip
    page = tmp_path / "truth.html"
    assert run([*TRY, "--starts", "1", *tried, "--truth", "work=1.1", "--report", str(page)]) == 0
    words = "The job was not what its file says: 1.1 times the work."
    assert words in capsys.readouterr().out
    assert words in page.read_text(encoding="utf-8")


def test_starts_every_so_often(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRY, "--starts", "every:20h", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (
        sorted({row["start_slot"] for row in document["runs"]})
        == [0, 40, 80, 120, 160][: len(document["runs"]) // 5]
    )


def test_plan_prints_ranges_and_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", JOB, "--market", MARKET]) == 0
    out = capsys.readouterr().out
    assert "probably" in out
    assert "GPUs held over time" in out
    first = next(line for line in out.splitlines() if "it would hold" in line)
    assert ", because " in first
    assert "_" not in first, "signals are for programs"
    assert "This assumes that" in out


def test_plan_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", JOB, "--market", MARKET, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first = document["outlooks"][0]
    assert first["policy"] == document["policy"]
    for part in ("futures", "history"):
        cost = first[part]["cost_usd"]
        assert cost["p10"] <= cost["p50"] <= cost["p90"]
        assert first[part]["on_time_share"] == 1.0
    assert document["gpus_over_time"][0]["hours"] == 0.0
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    for key in [*document, *first, *first["futures"], *document["first_decision"], *document["pools"][0]]:
        assert f"`{key}`" in text
    assert document["outlooks"][-1]["policy"] == "clairvoyant"


def job(folder: Path, text: str) -> str:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


TIGHT = "resources: {accelerators: 'H100:1..8'}\nwork: 80 gpu-hours\n"


def test_plan_refuses_what_cannot_be_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", job(tmp_path, TIGHT + "deadline: 9h\n"), "--market", MARKET]) == 3
    err = capsys.readouterr().err
    assert "earliest deadline that can be met is 10 h" in err
    assert "9 GPUs would be enough" in err


def test_plan_refuses_a_greatest_cost_nobody_could_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job(tmp_path, TIGHT + "deadline: 16h\nmax_cost: 20 usd\n")
    assert run(["plan", path, "--market", MARKET]) == 3
    assert "max_cost must allow at least" in capsys.readouterr().err


TRY = ["backtest", JOB, "--market", MARKET]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["backtest", "nowhere.yaml"], "nowhere.yaml"),
        (["backtest", JOB, "--market", "nowhere.csv"], "nowhere.csv"),
        (["backtest", JOB, "--market", "synthetic:h10"], "did you mean 'h100'"),
        ([*TRY, "--policy", "uniform"], "did you mean 'uniform-progress'"),
        ([*TRY, "--policy", "{uniform-progress: {gan: 1}}"], "did you mean 'gang'"),
        ([*TRY, "--policy", "{"], "--policy must be"),
        ([*TRY, "--policy", "on-demand,on-demand"], "each policy must be given once"),
        ([*TRY, "--starts", "0"], "starts must be >= 1, got 0"),
        ([*TRY, "--starts", "often"], "--starts must be a whole number >= 1"),
        ([*TRY, "--starts", "every:0h"], "must be > 0, got 0 h"),
        ([*TRY, "--truth", "work=0"], "the truth's work must be in 0.01..100, got 0"),
        ([*TRY, "--truth", "wrok=2"], "its keys are work, speed, later, seed; got 'wrok=2'"),
        ([*TRY, "--slot", "30"], "30"),
        ([*TRY, "--pool", "mars"], "pool must be one of the known names"),
        (["backtest", JOB, "--market", "synthetic:h100?days=0.5"], "must cover the deadline"),
        (["backtest", JOB, "-o", "xml"], "xml"),
        (["backtest"], "JOB"),
        (["policies", "--check", "nobody"], "policy must be one of the known names"),
        (["policies", "--check", "no.module:Class"], "the policy's module 'no.module' must load"),
        (["plan", JOB, "--policy", "nobody", "--market", MARKET], "known: "),
    ],
)  # fmt: skip
def test_mistakes_get_code_2_and_one_clear_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_policies_are_listed_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(set(row) == {"name", "summary", "parameters"} for row in rows)
    listed = [row["name"] for row in rows]
    assert sorted(listed) == list(policies), "each once"
    chosen_among, others, experiments = (listed.index(n) for n in ("on-demand", "deadline-guard", "ahap"))
    assert chosen_among < others < experiments
    assert run(["policies"]) == 0
    text = capsys.readouterr().out
    places = [text.index(f"  {name}\n") for name in listed]
    assert places == sorted(places), "text in the same order"
    assert run(["policies", "--check", "on-demand", "--examples", "3"]) == 0
    assert "keeps the contract" in capsys.readouterr().out


def test_module_runs_and_pipes_may_close() -> None:
    shell = f"{sys.executable} -m slacktide policies | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout == "To choose among:\n"
    assert done.stderr == ""


def test_a_plan_is_drawn_and_written_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, page = tmp_path / "plan.png", tmp_path / "plan.html"
    words = ["plan", JOB, "--market", MARKET, "--plot", str(picture), "--report", str(page)]
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "What would change the cost" in said
    assert " would save " in said or " would cost " in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--plot", "--report"])
def test_a_plan_is_not_written_in_a_format_nobody_knows(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", JOB, "--market", MARKET, option, str(tmp_path / "plan.doc")]) == 2
    assert "file that ends in" in capsys.readouterr().err


def test_a_plan_begins_where_it_is_told_to_and_knows_nothing_of_what_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole.csv"
    assert run(["market", "synthesize", "h100", str(whole), "--days", "6", "--slot", "30m"]) == 0
    lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    cut = tmp_path / "cut.csv"
    cut.write_text("".join(lines[:-60]), encoding="utf-8")
    capsys.readouterr()
    told = []
    for market in (whole, cut):
        words = ["plan", JOB, "--market", str(market), "--start", "190", "-o", "json"]
        assert run(words) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [one["begin"]["slot"] for one in told] == [190, 190]
    assert told[0]["outlooks"] == told[1]["outlooks"]
    assert told[0]["cost_by_deadline"] == told[1]["cost_by_deadline"]
