"""Formats of others: SkyPilot traces, AWS price histories and price-event files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slacktide.core.errors import FileError, InputError, SlacktideError
from slacktide.market.base import EPOCH
from slacktide.market.formats import price_changes, skypilot_traces
from slacktide.market.formats.skypilot_traces import write_skypilot
from slacktide.market.spec import ReadOptions
from tests.build import read_as

read_aws_history = partial(read_as, price_changes.read_aws_history)
read_price_events = partial(read_as, price_changes.read_price_events)
read_skypilot = partial(read_as, skypilot_traces.read_skypilot)


def saved(tmp_path: Path, content: Any, name: str = "trace_v100_1.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def trace(*counts: Any, gap: Any = 300, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"gap_seconds": gap, **metadata}, "data": list(counts)}


def entry(
    time: str, usd: Any, zone: str = "us-east-2a", kind: str = "p3.8xlarge", product: str = "Linux/UNIX"
) -> Any:
    return {
        "AvailabilityZone": zone,
        "InstanceType": kind,
        "ProductDescription": product,
        "SpotPrice": usd,
        "Timestamp": time,
    }


def history(*entries: Any) -> dict[str, Any]:
    return {"NextToken": "", "SpotPriceHistory": list(entries)}


def test_a_skypilot_trace_says_what_it_assumes(tmp_path: Path) -> None:
    market = read_skypilot(saved(tmp_path, trace(0, 5, 16)))
    pool = market["trace_v100_1"]
    assert (pool.start, pool.slot_hours, pool.gpu) == (EPOCH, 300 / 3600, "V100")
    assert pool.spot_gpus.tolist() == [0, 5, 16]
    assert pool.on_demand_usd_per_gpu_hour.tolist() == [3.06] * 3
    np.testing.assert_allclose(pool.spot_usd_per_gpu_hour, 0.918)
    text = " ".join(market.assumptions)
    for word in ("2025-01-01", "V100", "3.06", "0.918"):
        assert word in text


def test_prices_and_slots_given_by_the_caller_win(tmp_path: Path) -> None:
    path = saved(tmp_path, trace(3, 5, 16, 2), "mystery.json")
    market = read_skypilot(path, spot_usd=0.0, on_demand_usd=7.0, slot_hours=1 / 6)
    assert market.pools[0].spot_gpus.tolist() == [3, 2]
    assert market.pools[0].spot_usd_per_gpu_hour.tolist() == [0, 0]
    assert "as given" in market.assumptions[1]


def test_the_gpu_may_be_named_in_the_metadata(tmp_path: Path) -> None:
    market = read_skypilot(saved(tmp_path, trace(1, device="H100 SXM"), "mystery.json"))
    assert market.pools[0].on_demand_usd_per_gpu_hour[0] == 12.29
    assert market.pools[0].gpu == "H100"


def test_an_unknown_gpu_needs_a_price(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--on-demand-usd"):
        read_skypilot(saved(tmp_path, trace(1), "mystery.json"))


def test_a_trace_survives_writing_and_reading(tmp_path: Path) -> None:
    pool = read_skypilot(saved(tmp_path, trace(0, 5, 16, gap=195))).pools[0]
    write_skypilot(pool, tmp_path / "again_v100.json")
    assert json.loads((tmp_path / "again_v100.json").read_text()) == trace(0, 5, 16, gap=195)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"metadata":\n {"gap_seconds": 300},\n "data": [1, }', [":3:", "JSON"]),
        ("[1, 2]", ["object", "an array"]),
        ("3", ["object", "a number"]),
        ({"data": [1]}, ["metadata", "no such key"]),
        ({"metadata": 3, "data": [1]}, ["metadata", "a number"]),
        ({"metadata": {}, "data": [1]}, ["gap_seconds", "None"]),
        (trace(1, gap=0), ["gap_seconds", "> 0"]),
        (trace(1, gap="300"), ["gap_seconds", "'300'"]),
        ('{"metadata": {"gap_seconds": NaN}, "data": [1]}', ["gap_seconds", "nan"]),
        ({"metadata": {"gap_seconds": 300}}, ["data", "no such key"]),
        (trace(), ["data", "empty array"]),
        ({"metadata": {"gap_seconds": 300}, "data": "1"}, ["data", "a text"]),
        (trace(1, -2), ["data[1]", "whole", "'-2'"]),
        (trace(1, 1.5), ["data[1]", "whole", "'1.5'"]),
        (trace(1, "x"), ["data[1]", "number", "'x'"]),
        (trace(1, None), ["data[1]", "number", "'null'"]),
        (trace(1, True), ["data[1]", "number", "'true'"]),
        (trace(1, [2]), ["data[1]", "number"]),
        ('{"metadata": {"gap_seconds": 300}, "data": [1, NaN]}', ["data[1]", "finite"]),
        (trace(1, 10**30), ["data[1]", "whole"]),
        ("[" * 100_000, ["nested"]),
    ],
)
def test_a_broken_trace_is_told_what_is_wrong(tmp_path: Path, content: Any, words: list[str]) -> None:
    path = saved(tmp_path, content)
    with pytest.raises(FileError) as caught:
        read_skypilot(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_a_price_history_is_carried_forward_per_gpu(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        history(
            entry("2020-03-13T02:15:00.000Z", "8.000000"),
            entry("2020-03-13T01:15:00+00:00", "4.000000"),
            entry("2020-03-13T00:30:00.000Z", "6", zone="us-east-2b"),
            entry("2020-03-13T00:00:00.000Z", "2.000000"),
        ),
    )
    market = read_aws_history(path, spot_gpus=4)
    pool = market["us-east-2a/p3.8xlarge"]
    assert pool.start == datetime(2020, 3, 13, tzinfo=UTC)
    assert pool.slot_hours == 0.5
    assert pool.spot_usd_per_gpu_hour.tolist() == [0.5, 0.5, 0.75, 1.0]
    assert pool.on_demand_usd_per_gpu_hour.tolist() == [3.06] * 4
    assert pool.spot_gpus.tolist() == [4] * 4
    assert market["us-east-2b/p3.8xlarge"].start == datetime(2020, 3, 13, 0, 30, tzinfo=UTC)
    assert len(market["us-east-2b/p3.8xlarge"]) == 3
    assert {pool.gpu for pool in market.pools} == {"V100"}
    text = " ".join(market.assumptions)
    assert "4 spot GPUs" in text
    assert "p3.8xlarge has 4 GPUs" in text


def test_products_are_kept_apart(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        history(entry("2020-03-13T00:00:00Z", "2"), entry("2020-03-13T00:00:00Z", "3", product="Windows")),
    )
    assert list(read_aws_history(path)) == [
        "us-east-2a/p3.8xlarge/Linux/UNIX",
        "us-east-2a/p3.8xlarge/Windows",
    ]


def test_an_entry_repeated_is_one_and_a_contradiction_is_refused(tmp_path: Path) -> None:
    same = history(entry("2020-03-13T00:00:00Z", "2"), entry("2020-03-13T00:00:00Z", "2"))
    assert len(read_aws_history(saved(tmp_path, same)).pools[0]) == 1
    other = saved(tmp_path, history(entry("2020-03-13T00:00:00Z", "2"), entry("2020-03-13T00:00:00Z", "4")))
    with pytest.raises(FileError, match=r"SpotPriceHistory\[1\].*once per pool"):
        read_aws_history(other)
    kept = read_aws_history(other, duplicates="last").pools[0]
    assert kept.spot_usd_per_gpu_hour.tolist() == [1.0]


def test_an_unknown_machine_needs_its_facts(tmp_path: Path) -> None:
    path = saved(tmp_path, history(entry("2020-03-13T00:00:00Z", "16", kind="q9.huge")))
    with pytest.raises(FileError, match=r"q9\.huge.*--gpus-per-instance, --on-demand-usd"):
        read_aws_history(path)
    with pytest.raises(FileError, match="give on_demand_usd"):
        read_aws_history(path, gpus_per_instance=8)
    pool = read_aws_history(path, gpus_per_instance=8, on_demand_usd=5).pools[0]
    assert (pool.spot_usd_per_gpu_hour[0], pool.on_demand_usd_per_gpu_hour[0]) == (2.0, 5.0)
    assert pool.gpu == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"SpotPriceHistory": 3}, ["SpotPriceHistory", "array", "a number"]),
        ({"Other": []}, ["SpotPriceHistory", "no such key"]),
        (history(), ["prices, got none"]),
        (history("x"), ["SpotPriceHistory[0]", "a text"]),
        (history({"InstanceType": "p3.2xlarge"}), ["SpotPriceHistory[0]", "AvailabilityZone"]),
        (history(entry("2020-03-13T00:00:00Z", "cheap")), ["SpotPriceHistory[0]", "SpotPrice", "'cheap'"]),
        (history(entry("2020-03-13T00:00:00Z", "-1")), ["SpotPriceHistory[0]", "SpotPrice", "'-1'"]),
        (history(entry("noon", "1")), ["SpotPriceHistory[0]", "Timestamp", "'noon'"]),
        (history(entry("2020-03-13T00:00:00Z", "1", zone=" ")), ["AvailabilityZone", "empty"]),
    ],
)
def test_a_broken_history_is_told_what_is_wrong(tmp_path: Path, content: Any, words: list[str]) -> None:
    with pytest.raises(FileError) as caught:
        read_aws_history(saved(tmp_path, content))
    for word in words:
        assert word in str(caught.value)


EVENTS = "instance_type,zone_name,ts_utc,spot_usd_h"


def test_price_events_need_no_order(tmp_path: Path) -> None:
    rows = ["p4d.24xlarge,z,2024-01-13T01:00:00Z,16", "p4d.24xlarge,z,2024-01-13T00:00:00Z,8"]
    rows.append("p4d.24xlarge,z,2024-01-13T02:00:00Z,24")
    market = read_price_events(saved(tmp_path, "\n".join([EVENTS, *rows]), "e.csv"), slot_hours=1.0)
    assert market["z/p4d.24xlarge"].spot_usd_per_gpu_hour.tolist() == [1.0, 2.0]
    assert market["z/p4d.24xlarge"].spot_gpus.tolist() == [16, 16]
    assert market["z/p4d.24xlarge"].gpu == "A100"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("p4d.24xlarge,z,2024-01-13T01:00:00Z,x", ["spot_usd_h", "'x'"]),
        ("p4d.24xlarge,z,2024-01-13T01:00:00Z", ["4 cells", "got 3"]),
        ("p4d.24xlarge,z,then,1", ["ts_utc", "'then'"]),
        ("p4d.24xlarge,,2024-01-13T01:00:00Z,1", ["zone_name", "empty"]),
        ("q1.large,z,2024-01-13T01:00:00Z,1", ["'q1.large'", "gpus_per_instance"]),
    ],
)
def test_a_broken_event_is_named_by_line(tmp_path: Path, row: str, words: list[str]) -> None:
    good = "p4d.24xlarge,z,2024-01-13T00:00:00Z,8"
    with pytest.raises(FileError) as caught:
        read_price_events(saved(tmp_path, "\n".join([EVENTS, good, "", row]), "e.csv"))
    assert caught.value.line == 4
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"spot_usd": -1.0},
        {"on_demand_usd": float("nan")},
        {"spot_gpus": -1},
        {"gpus_per_instance": 0},
    ],
)
def test_what_the_caller_says_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(SlacktideError, match=next(iter(wrong))):
        ReadOptions(**wrong)
