"""`slacktide budget` as a platform engineer meets it: one screen, other budgets, pictures, mistakes."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slacktide.cli import run

ROOT = Path(__file__).parents[2]
FLEET = str(ROOT / "examples" / "fleet.yaml")
PLAIN = "budget: 1 gpu\nclasses:\n"
# The test vectors of the theory: Amdahl with 80 %, and the square root.
PAPER = PLAIN + (
    "- {name: amdahl, arrivals_per_hour: 0.4, work: 1 gpu-hour, speedup: {amdahl: 0.8}}\n"
    "- {name: root, arrivals_per_hour: 0.4, work: 1 gpu-hour, speedup: {power: 0.5}}\n"
)


@pytest.fixture
def paper(tmp_path: Path) -> str:
    path = tmp_path / "paper.yaml"
    path.write_text(PAPER, encoding="utf-8")
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["budget", *arguments, "-o", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_one_screen_answers_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "budget.png"
    assert run(["budget", FLEET, "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    for words in (
        "a budget of 20000 usd/month rents 9.72 GPUs on average ($27.40 per hour)",
        "the minimum that keeps up with them is 7.18 GPUs ($20.24 per hour, $14,777 per month)",
        "smoke-tests", "bert", "vit", "llama-lora", "sweeps",
        "One width for all (", "× as long, for the same money",
        "10 % less", "this one", "$1 per hour more", "1 GPU more", "10 % more", "the most that helps",
        "later", "sooner",
        "llama-lora is mixed", "not concave", "a month is 730 hours",
    ):  # fmt: skip
        assert words in out, words
    assert len(out.splitlines()) <= 40
    assert f"wrote {picture}" in err
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    document = asked(capsys, FLEET, "--frontier")
    assert {
        "budget_gpus", "shadow_price_hours_per_gpu", "mean_response_hours", "average_gpus", "classes",
    } <= set(document)  # fmt: skip
    for one in document["classes"]:
        assert {"name", "phases", "response_hours", "average_gpus"} <= set(one)
        for phase in one["phases"]:
            assert sum(width["share"] for width in phase["widths"]) == pytest.approx(1)
            assert all(set(width) == {"gpus", "share"} for width in phase["widths"])
    assert [len(one["phases"]) for one in document["classes"]] == [1, 1, 1, 3, 1]
    assert sum(one["average_gpus"] for one in document["classes"]) == pytest.approx(document["average_gpus"])
    assert sum(one["spend_share"] for one in document["classes"]) == pytest.approx(1)
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    part = text.split("## slacktide budget\n")[1].split("\n## ")[0]
    row, step = document["frontier"][0], document["steps"][0]
    for key in {*document, *document["classes"][0], *row, *row["classes"][0], *step, *document["one_width"]}:
        assert f"`{key}`" in part, key


def test_without_a_price_nothing_is_said_of_money(paper: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["budget", paper]) == 0
    out = capsys.readouterr().out
    assert "$" not in out
    assert "month" not in out
    document = asked(capsys, paper)
    assert document["usd_per_gpu_hour"] is None
    assert document["budget_usd_per_hour"] is None
    assert all(step["budget_usd_per_hour"] is None for step in document["steps"])


@pytest.mark.parametrize(
    ("budget", "amdahl", "root", "response"),
    [(0.9, 2.071, 1.073, 0.776), (1, 2.429, 1.474, 0.676), (2, 6, 9, 0.3333), (3, 9.571, 22.903, 0.246)],
)
def test_continuous_widths_are_those_of_the_paper(
    paper: str, capsys: pytest.CaptureFixture[str], budget: float, amdahl: float, root: float, response: float
) -> None:
    document = asked(capsys, paper, "--continuous", "--budget", f"{budget} gpus")
    widths = [one["phases"][0]["widths"][0]["gpus"] for one in document["classes"]]
    assert widths == pytest.approx([amdahl, root], abs=2e-3)
    assert document["mean_response_hours"] == pytest.approx(response, abs=6e-4)


def test_whole_widths_mix_at_most_one_class(capsys: pytest.CaptureFixture[str]) -> None:
    for budget in ("8 gpus", "9.3 gpus", "12.7 gpus", "25 usd/hour"):
        document = asked(capsys, FLEET, "--budget", budget)
        assert sum(len(one["paths"]) > 1 for one in document["classes"]) <= 1
        assert document["average_gpus"] == pytest.approx(document["budget_gpus"])


def test_the_cheapest_budget_for_a_response(capsys: pytest.CaptureFixture[str]) -> None:
    document = asked(capsys, FLEET, "--response", "45m")
    assert document["mean_response_hours"] == pytest.approx(0.75)
    assert document["response_hours"] == 0.75
    again = asked(capsys, FLEET, "--budget", f"{document['budget_gpus']:.9f} gpus")
    assert again["mean_response_hours"] == pytest.approx(0.75)
    assert run(["budget", FLEET, "--response", "45m"]) == 0
    out = capsys.readouterr().out
    assert "a mean response of 45m needs 8.18 GPUs on average" in out
    assert "the file's budget is 20000 usd/month" in out


def test_a_response_that_the_least_budget_beats_costs_the_least(capsys: pytest.CaptureFixture[str]) -> None:
    document = asked(capsys, FLEET, "--response", "9d")
    assert document["budget_gpus"] == pytest.approx(document["least_budget_gpus"])


def test_the_frontier_falls_and_has_every_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["budget", FLEET, "--frontier"]) == 0
    out = capsys.readouterr().out
    for words in ("smoke-tests", "llama-lora", "saves", "a|b: two widths share"):
        assert words in out
    rows = asked(capsys, FLEET, "--frontier")["frontier"]
    assert 8 <= len(rows) <= 14
    for left, right in pairwise(rows):
        assert left["budget_gpus"] < right["budget_gpus"]
        assert left["mean_response_hours"] > right["mean_response_hours"]
        assert left["shadow_price_hours_per_gpu"] >= right["shadow_price_hours_per_gpu"]
    assert "frontier" not in asked(capsys, FLEET)


def test_csv_has_a_line_for_each_class_or_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["budget", FLEET, "-o", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["name"] for line in lines] == ["smoke-tests", "bert", "vit", "llama-lora", "sweeps"]
    assert sum(float(line["spend_share"]) for line in lines) == pytest.approx(1)
    assert run(["budget", FLEET, "-o", "csv", "--frontier"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) >= 8
    assert {"budget_gpus", "mean_response_hours", "vit"} <= rows[0].keys()


def test_what_is_printed_as_the_least_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["budget", FLEET, "--budget", "5000 usd/month"]) == 3
    err = capsys.readouterr().err
    found = re.search(r"must be >= ([\d.]+) GPUs on average \(([\d,]+) usd/month\)", err)
    assert found is not None
    assert "got 2.429 GPUs (5,000 usd/month)" in err
    assert run(["budget", FLEET, "--budget", f"{found[1]} gpus"]) == 0
    assert run(["budget", FLEET, "--budget", f"{found[2]} usd/month"]) == 0


def test_the_fastest_response_that_is_printed_can_be_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["budget", FLEET, "--response", "30s"]) == 3
    found = re.search(r"must be >= (\S+), the fastest on any budget, got 30s", capsys.readouterr().err)
    assert found is not None
    assert run(["budget", FLEET, "--response", found[1]]) == 0


def test_more_than_is_of_use_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["budget", FLEET, "--budget", "40 gpus"]) == 0
    out = capsys.readouterr().out
    assert "every class is at its fastest" in out
    assert "1 GPU more" not in out


def test_a_job_that_scales_perfectly_has_no_frontier_to_speak_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "fleet.yaml", tmp_path / "fleet.png"
    path.write_text(PLAIN + "- {name: a, arrivals: 1/hour, work: 0.5 gpuh}\n")
    document = asked(capsys, str(path), "--frontier", "--plot", str(picture))
    assert document["least_budget_gpus"] == document["useful_budget_gpus"] == pytest.approx(0.5)
    assert len(document["frontier"]) == 1
    assert any("say which widths are possible" in note for note in document["notes"])
    assert picture.exists()
    assert run(["budget", str(path), "--frontier"]) == 0
    assert run(["budget", str(path), "--budget", "0.5 gpus"]) == 0


def test_a_fleet_of_many_classes_still_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        f"- {{name: class-number-{n}, arrivals: 1/hour, work: {n + 1} gpuh, speedup: {{amdahl: 0.9}}}}"
        for n in range(30)
    ]
    path = tmp_path / "many.yaml"
    path.write_text("budget: 600 gpus\nclasses:\n" + "\n".join(lines) + "\n")
    picture = tmp_path / "many.png"
    assert run(["budget", str(path), "--plot", str(picture)]) == 0
    assert "6 others" in capsys.readouterr().out
    assert run(["budget", str(path), "--frontier"]) == 0
    out = capsys.readouterr().out
    assert "more; -o json has all classes" in out
    assert max(map(len, out.splitlines())) <= 160
    assert "…" not in out
    assert picture.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.yaml"], "none.yaml: must be a readable file"),
        ([str(ROOT / "examples" / "llama-lora.yaml")], "got a job file; plan it with 'slacktide plan'"),
        ([FLEET, "--budget", "12"], "--budget: a budget must be an average"),
        ([FLEET, "--budget", "12 usd"], "name its period, as in '12 usd/month'"),
        ([FLEET, "--budget", "0 gpus"], "--budget: a budget must be > 0"),
        ([FLEET, "--budget", ""], "--budget: a budget must be an average"),
        ([FLEET, "--budget", "12 gpus", "--response", "2h"], "one of --budget and --response"),
        ([FLEET, "--response", "2"], "write 2h for hours"),
        ([FLEET, "--response", "0s"], "must be a finite number > 0, got 0"),
        ([FLEET, "--plot", str(ROOT)], "must be written to a file that ends in"),
        ([FLEET, "-o", "yaml"], "yaml"),
        ([FLEET, "--frontiers"], "--frontier"),
    ],
)
def test_mistakes_are_answered(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert run(["budget", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_money_for_a_fleet_without_a_price_is_refused(paper: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["budget", paper, "--budget", "40 usd/hour"]) == 2
    assert "must come with the price of a GPU-hour" in capsys.readouterr().err


def test_a_mistake_in_the_file_names_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(PAPER.replace("amdahl: 0.8", "amdhal: 0.8"))
    assert run(["budget", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"{path}:3:" in err
    assert "did you mean 'amdahl'?" in err
