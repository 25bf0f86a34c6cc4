"""The documented keys hold, on every back-test, and no number in them is infinite."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

from slacktide.report.wire.backtest import as_json, csv_text
from slacktide.results.comparison import Comparison

RUN = [
    "policy", "pool", "start_slot", "start_time_utc", "cost_usd", "utility_usd", "finish_hours", "on_time",
    "spot_gpu_hours", "on_demand_gpu_hours", "preemptions", "lost_gpu_hours",
]  # fmt: skip
SUMMARY = [
    "policy", "mean_cost_usd", "mean_utility_usd", "on_time_share", "cost_over_clairvoyant", "p10_cost_usd",
    "p50_cost_usd", "p90_cost_usd", "mean_finish_hours", "mean_spot_gpu_hours", "mean_on_demand_gpu_hours",
    "mean_preemptions",
]  # fmt: skip
JOB = [
    "name", "work_gpu_hours", "deadline_hours", "widths", "restart_hours", "shrink_hours", "checkpoint_hours",
    "hard", "value_usd", "worthless_after_hours", "max_cost_usd", "billing", "speedup",
]  # fmt: skip
MARKET = ["source", "slot_hours", "pools", "assumptions"]
POOL = ["name", "slots", "slot_hours", "from_utc", "to_utc"]


def test_json_has_exactly_the_documented_keys(comparison: Comparison) -> None:
    document = as_json(comparison)
    assert list(document) == ["job", "market", "runs", "summary"]
    assert list(document["job"]) == JOB
    assert list(document["market"]) == MARKET
    assert [list(pool) for pool in document["market"]["pools"]] == [POOL]
    assert all(list(run) == RUN for run in document["runs"])
    assert all(list(one) == SUMMARY for one in document["summary"])


def test_every_key_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([a-z0-9_]+)`", page))
    assert {*RUN, *SUMMARY, *JOB, *MARKET, *POOL} <= documented


def test_json_survives_strict_readers(odd: Comparison) -> None:
    document = as_json(odd)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(document["runs"]) == len(odd.runs)


def test_json_tells_the_run(comparison: Comparison) -> None:
    first, told = comparison.runs[0], as_json(comparison)["runs"][0]
    assert told["start_time_utc"] == "2025-10-04T22:40:00Z"
    assert (told["cost_usd"], told["finish_hours"]) == (first.cost_usd, first.finish_hours)


def test_csv_has_a_line_per_run_under_the_same_keys(odd: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(odd))))
    told = as_json(odd)["runs"]
    assert len(rows) == len(told)
    for row, run in zip(rows, told, strict=True):
        assert list(row) == RUN
        assert (float(row["finish_hours"]) if row["finish_hours"] else None) == run["finish_hours"]
        assert row["on_time"] == str(run["on_time"]).lower()
        assert float(row["cost_usd"]) == run["cost_usd"]
