"""What mutated inputs once found, each as its own test: a sentence and an exit code, no traceback or hang."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from slacktide.cli import run
from slacktide.market import series
from slacktide.market.formats import market_bytes as files

FLEET = """
budget: 16 gpus
classes: [{name: bert, arrivals: 1/hour, work: 6 gpu-hours, widths: 1..4}]
"""
HEADER = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour\n"
PYTHON_WORDS = ("Traceback", "Error:", "NoneType", "invalid literal", "has no attribute", "<class")


def refused(capsys: pytest.CaptureFixture[str], *args: object, code: int = 2) -> str:
    """Run a command that must be refused with one sentence; returns it."""
    began = time.process_time()
    assert run([str(arg) for arg in args]) == code
    said = capsys.readouterr().err.strip()
    sentence = said.removeprefix("slacktide: error: ")
    assert sentence.count("\n") == 0
    assert not any(word in sentence for word in PYTHON_WORDS)
    assert len(sentence) < 600
    assert time.process_time() - began < 60  # seconds of CPU: none of these was ended by hand
    return sentence


def test_a_recorded_job_at_1e23_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "jobs.csv").write_text("arrival_s,work_gpu_hours\n0,6\n1e23,6\n")
    said = refused(capsys, "simulate", tmp_path / "fleet.yaml", "--jobs", tmp_path / "jobs.csv")
    assert "jobs.csv:3: column 'arrival_s' must be within 1e+07 hours, got '1e23'" in said


def test_a_recorded_stream_of_two_centuries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "jobs.csv").write_text("arrival_hours,work_gpu_hours\n0,6\n2e6,6\n")
    said = refused(capsys, "simulate", tmp_path / "fleet.yaml", "--jobs", tmp_path / "jobs.csv")
    assert "a recorded stream must last at most 876000 hours, got 2e+06" in said


def test_a_measured_rate_of_1e308(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "measured.csv").write_text("gpus,samples_per_s\n1,1\n2,1e308\n4,1e308\n")
    said = refused(capsys, "speedup", "fit", tmp_path / "measured.csv")
    assert "measured.csv:3: samples_per_s must be a rate in 1e-12..1e+12, got '1e308'" in said


def test_a_speedup_of_1e308_in_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "plan", job_file(tmp_path, speedup="{table: {1: 1, 2: 1.0e+308}}"))
    assert "the speedup at 2 GPUs must be in 1e-12..1e+12, got 1e+308" in said


@pytest.mark.parametrize("unit", ["s", "us"])
def test_a_parquet_time_beyond_the_year_9999(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str
) -> None:
    first = {"s": 400_000_000_000_000, "us": 400_000_000_000_000_000}[unit]
    columns = {
        "time_utc": pa.array([first, first + 600], pa.timestamp(unit, tz="UTC")),
        "pool": ["a", "a"],
        "spot_gpus": [1, 2],
        "spot_usd_per_gpu_hour": [1.0, 1.0],
        "on_demand_usd_per_gpu_hour": [2.0, 2.0],
    }
    parquet.write_table(pa.table(columns), tmp_path / "market.parquet")
    said = refused(capsys, "market", "show", tmp_path / "market.parquet")
    assert "row 1: time_utc must be a time such as" in said


def test_a_timestamp_in_the_year_4096_of_a_price_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"AvailabilityZone": "z", "InstanceType": "p4d.24xlarge", "SpotPrice": "10.0"}
    history = [{**entry, "Timestamp": f"{year}-10-04T00:00:00Z"} for year in (2025, 4096)]
    (tmp_path / "history.json").write_text(json.dumps({"SpotPriceHistory": history}))
    said = refused(capsys, "market", "show", tmp_path / "history.json")
    assert "a market must have <= 5000000 slots in all its pools, got 3.63e+07" in said


def test_many_pools_that_are_each_just_short_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{time}Z,pool{number},8,2.0,10.0\n"
        for number in range(40)
        for time in ("2025-01-01T00:00:00", "2025-01-01T00:10:00", "2035-01-01T00:00:00")
    ]
    (tmp_path / "market.csv").write_text(HEADER + "".join(rows))
    assert "a market must have <= 5000000 slots" in refused(capsys, "market", "show", tmp_path / "market.csv")


def test_a_trace_that_ends_after_the_year_9999(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = {"metadata": {"gap_seconds": 1e12}, "data": [1, 2, 3]}
    (tmp_path / "v100.json").write_text(json.dumps(trace))
    said = refused(capsys, "market", "show", tmp_path / "v100.json")
    assert "the series must end before the year 10000" in said


def test_a_number_of_thousands_of_digits_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v100.json").write_text('{"metadata": {"gap_seconds": ' + "9" * 5000 + '}, "data": [1]}')
    assert "thousands of digits" in refused(capsys, "market", "show", tmp_path / "v100.json")


def test_a_gzip_bomb_is_not_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 2 << 20)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(HEADER.encode() + bytes(64 << 20)))
    said = refused(capsys, "market", "show", tmp_path / "bomb.csv.gz")
    assert "a market file must have at most 2 MiB uncompressed, got more" in said


def test_the_bounds_are_those_that_the_docs_tell() -> None:
    assert (files.MAX_BYTES, series.MAX_SLOTS) == (512 << 20, 5_000_000)


def test_a_parquet_file_of_a_billion_equal_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slacktide.market.formats.table.MAX_ROWS", 1000)
    parquet.write_table(pa.table({"time_utc": [0] * 1001}), tmp_path / "market.parquet")
    assert "must have <= 1000 rows, got 1001" in refused(
        capsys, "market", "show", tmp_path / "market.parquet"
    )


def test_a_back_test_of_an_infeasible_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job_file(tmp_path, widths="1", work="86400 gpu-hours", deadline="2d")
    said = refused(capsys, "backtest", path, code=3)
    assert "the deadline of 48 h cannot be met" in said


@pytest.mark.parametrize(
    "damage",
    [
        {"arms": None},
        {"arms": [1]},
        {"rate": 5},
        {"rate": {"fixed": {"jobs": "x"}}},
        {"prior": ["a"]},
        {"tally": {}},
        {"tally": {"eta": "x"}},
        {"open": []},
        {"open": {"job": 7}},
        {"recent": 1},
        {"leaders": [[1]]},
        {"leaders": [["x", 99]]},
        {"trail": [[1, 2]]},
        {"stride": {}},
        {"utility": {"a": 1}},
    ],
    ids=str,
)
def test_a_damaged_learned_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: dict[str, object]
) -> None:
    state = tmp_path / "learn.json"
    from slacktide.policies.selection.document import to_json
    from slacktide.policies.selection.policy_set import AUTO_SET, fresh

    state.write_text(json.dumps({**json.loads(to_json(fresh(AUTO_SET))), **damage}))
    (key,) = damage
    said = refused(capsys, "learn", "--state", state)
    assert "must be a whole learned state, got a damaged one: " in said
    assert key in said.split("damaged one: ")[1]


@pytest.mark.parametrize("option", ["--pool", "--policy", "--market", "--slot", "--gaps"])
def test_a_value_of_5000_characters_is_cut_where_it_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    long = "x" * 5000
    assert run(["plan", str(job_file(tmp_path)), option, long]) == 2
    assert "x" * 300 not in capsys.readouterr().err


def test_a_name_of_5000_characters_in_a_file_is_cut_where_it_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "market.csv").write_text(HEADER + f"2025-10-04T00:00:00Z,{'x' * 5000},8,2.0,10.0\n" * 2)
    said = refused(capsys, "market", "show", tmp_path / "market.csv")
    assert "x" * 77 + "...'" in said


def job_file(
    folder: Path,
    *,
    widths: str = "1..2",
    work: str = "8 gpu-hours",
    deadline: str = "12h",
    speedup: str = "{amdahl: 0.97}",
) -> Path:
    path = folder / "job.yaml"
    path.write_text(
        f"name: one\nrun: python train.py\nresources: {{accelerators: 'H100:{widths}'}}\nwork: {work}\n"
        f"speedup: {speedup}\ndeadline: {deadline}\n"
    )
    return path
