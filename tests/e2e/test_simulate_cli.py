"""`slacktide simulate` as a user meets it: tables, JSON, CSV, pictures, and mistakes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from slacktide.cli import run

FLEET = """\
budget: 24 gpus
price: 2.50 usd
classes:
  - {name: bert, arrivals: 3/hour, work: 2 gpu-hours, speedup: {amdahl: 0.9}, widths: 1..16}
  - {name: ncf, arrivals: 4/hour, work: 1 gpu-hours, speedup: {power: 0.6}, widths: "{1,2,4,8}"}
"""
NODES = "stream: {node_gpus: 4, provisioning: 2m, idle_grace: 3m, arrivals: bursty, sizes: pareto}\n"
QUICK = ("--policy", "fixed-width,one-width")


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET, encoding="utf-8")
    return str(path)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["simulate", *arguments, "-o", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_table_says_what_was_run_and_what_it_came_to(
    fleet: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", fleet, "--count", "600", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    for words in (
        "600 jobs over", "poisson arrivals and exponential sizes, seed 3", "budget 24.00 GPUs",
        "$60.00 an hour", "fixed-width", "online-width", "one-width", "fifo", "equi", "srpt",
        "efficiency-band", "single GPUs, at once", "average GPUs: all that was paid for",
    ):  # fmt: skip
        assert words in out


def test_json_has_the_documented_keys(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, fleet, "--count", "400", *QUICK)
    assert (found["jobs"], found["budget_gpus"], found["usd_per_gpu_hour"]) == (400, 24.0, 2.5)
    fixed, one = found["policies"]
    assert fixed["over_optimum"] == 1.0
    assert one["over_optimum"] > 0.999
    assert fixed["usd_per_hour"] == pytest.approx(2.5 * fixed["average_gpus"])
    parts = ("busy", "restart", "fragmentation", "idle")
    assert sum(one[f"{part}_gpu_hours"] for part in parts) == pytest.approx(one["gpu_hours"])
    assert [each["name"] for each in one["classes"]] == ["bert", "ncf"]
    assert sum(each["jobs"] for each in one["classes"]) == 400
    page = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
    documented = page.read_text(encoding="utf-8").split("## slacktide simulate")[1]
    for key in {*found, *one, *one["classes"][0]}:
        assert f"`{key}`" in documented, key


def test_csv_has_a_line_for_each_policy(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", fleet, "--count", "300", *QUICK, "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["policy"].split("(")[0] for row in rows] == ["fixed-width", "one-width"]
    assert float(rows[0]["mean_response_hours"]) > 0


def test_the_same_seed_is_the_same_stream(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, third = (shown(capsys, fleet, "--count", "300", *QUICK, "--seed", seed) for seed in "112")
    assert one == other
    assert one["policies"][0]["mean_response_hours"] != third["policies"][0]["mean_response_hours"]


def test_options_override_the_file(fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(FLEET + NODES, encoding="utf-8")
    quick = ("--count", "200", "--policy", "{one-width: {gpus: 2}}")
    found = shown(capsys, str(path), *quick)
    assert (found["node_gpus"], found["stream"]) == (4, "bursty arrivals and pareto sizes, seed 0")
    assert found["provisioning_hours"] == pytest.approx(2 / 60)
    assert found["policies"][0]["fragmentation_gpu_hours"] > 0
    options = ("--node-gpus", "1", "--provisioning", "0s", "--idle-grace", "0s", "--budget", "75 usd/hour")
    more = shown(capsys, str(path), *quick, *options, "--arrivals", "poisson", "--sizes", "fixed")
    assert (more["node_gpus"], more["stream"]) == (1, "poisson arrivals and fixed sizes, seed 0")
    assert more["budget_gpus"] == pytest.approx(30.0)
    assert more["policies"][0]["fragmentation_gpu_hours"] == 0


def test_a_recorded_stream(fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"{600 * number},{'bert' if number % 3 else 'ncf'}\n" for number in range(200))
    trace = tmp_path / "trace.csv"
    trace.write_text("submit_s,application\n" + lines, encoding="utf-8")
    found = shown(capsys, fleet, "--jobs", str(trace), *QUICK)
    assert found["jobs"] == 200
    assert found["hours"] == pytest.approx(200 / 6)
    assert found["stream"] == "recorded in trace.csv"
    trace.write_text("submit_s,application\n0,bert\n60,brt\n", encoding="utf-8")
    assert run(["simulate", fleet, "--jobs", str(trace)]) == 2
    err = capsys.readouterr().err
    assert "trace.csv:3" in err
    assert "did you mean 'bert'" in err


def test_a_picture(fleet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "simulate.png"
    chosen = [*QUICK, "--policy", "{fifo: {cluster_gpus: 24, gpus: 2}}"]
    assert run(["simulate", fleet, "--count", "300", *chosen, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {picture}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--policy", "fixedwidth"], 2, "did you mean 'fixed-width'"),
        (["--policy", "{fifo: {cluster: 3}}"], 2, "a parameter must be one of"),
        (["--arrivals", "brusty"], 2, "did you mean 'bursty'"),
        (["--sizes", "normal"], 2, "sizes must be one of the known names"),
        (["--count", "0"], 2, "at least one job, got 0"),
        (["--count", "99999999999"], 2, "--count must be <="),
        (["--seed", "-1"], 2, "seed must be >= 0"),
        (["--node-gpus", "0"], 2, "node_gpus must be >= 1"),
        (["--provisioning", "12"], 2, "a duration must be a number with its unit"),
        (["--budget", "1 gpus"], 3, "the budget must be >="),
        (["--budget", "12"], 2, "--budget"),
        (["--jobs", "no-such.csv"], 2, "no-such.csv"),
        (["--jobs", "x.csv", "--count", "5"], 2, "--count must not be given with --jobs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_answered(
    fleet: str, options: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", fleet, *options]) == code
    assert words in capsys.readouterr().err
