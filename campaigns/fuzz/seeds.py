"""Valid inputs that mutations begin with: small ones, so that an input that is still valid is soon done."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

JOURNALS = Path(__file__).parents[2] / "tests" / "golden" / "journals"
HEADER = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
BEGIN = datetime(2025, 10, 4, tzinfo=UTC)
SLOTS = 48

JOB = """\
name: llama-lora
run: python train.py --steps 100
setup: pip install -r requirements.txt
workdir: .
envs: {MODEL: llama, SEED: "7"}
resources:
  accelerators: H100:1..4
work: 6 gpu-hours
speedup: {amdahl: 0.97}
deadline: 6h
restart: 4m
shrink: 2m
checkpoint: {dir: ckpt, every: 10m, grace: 30s}
max_cost: 300 usd
billing: second
policy: {uniform-progress: {gang: false}}
market: market.csv
retries: {failures: 3, preemptions: 10}
hang_after: 10m
"""
OTHER_JOB = """\
name: soft
resources: {accelerators: "A100:{1,2,4}"}
phases:
  - {work: 2 gpu-hours, speedup: {linear: {alpha: 0.9, beta: 0.1}}}
  - {work: 3 gpu-hours, speedup: {table: {1: 1, 2: 1.9, 4: 3.4}}}
deadline: 2h30m
value: $600
worthless_after: 5h
restart: 90s
checkpoint: none
billing: slot
policy: maximal-spot
market: synthetic:h100?days=2&seed=1&slot=30m
"""
FLEET = """\
budget: 20000 usd/month
price: {spot: 2.10 usd, on_demand: 6.90 usd, spot_share: 0.85}
classes:
  - name: smoke-tests
    arrivals: 60/day
    work: 0.5 gpu-hours
    speedup: {amdahl: 0.6}
    widths: 1..8
  - name: bert
    arrivals_per_hour: 0.4
    work: 6 gpu-hours
    speedup: {csv: {file: speedup.csv, where: {model: bert}}}
    restart: 2m
    widths: {1,2,4,8}
  - name: llama
    arrivals: 1/day
    phases:
      - {work: 8 gpu-hours, speedup: {power: 0.85}}
      - {work: 16 gpu-hours, speedup: {amdahl: 0.95}}
    restart: 6m
    widths: [1, 2, 4]
stream: {node_gpus: 1, provisioning: 4m, idle_grace: 5m, arrivals: bursty, sizes: lognormal}
"""
SPEEDUPS = """\
model,gpus,samples_per_s
bert,1,52.1
bert,2,101.8
bert,4,193.0
bert,8,352.7
vit,1,118.0
vit,2,229.4
vit,4,431.9
"""
JOBS = """\
class,arrival_s,work_gpu_hours
bert,0,6
smoke-tests,1200,0.4
bert,5400.5,7.25
llama,9000,20
smoke-tests,10000,0.6
"""
EVENTS = """\
instance_type,zone_name,ts_utc,spot_usd_h
p3.2xlarge,us-east-1a,2024-01-01T00:00:00Z,0.918
p3.2xlarge,us-east-1b,2024-01-01T01:10:00Z,0.95
p3.2xlarge,us-east-1a,2024-01-01T05:00:00Z,0.99
p3.2xlarge,us-east-1b,2024-01-02T01:10:00Z,1.01
"""
PROGRESS = """\
{"done": 0.1, "metrics": {"loss": 1.9}}
{"done": 0.42, "checkpointed": 0.4, "metrics": {"loss": 1.2, "step": 120}}
{"metrics": {"lr": 1e-4}}
{"done": 0.5}
"""


def market() -> str:
    """Return a small market as a table."""
    rows = (
        f"{_time(slot)},h100-a,{(slot * 7) % 9},{2 + slot % 5 / 10},10.32\n"
        f"{_time(slot)},h100-b,{(slot * 5) % 4},2.5,10.32\n"
        for slot in range(SLOTS)
    )
    return f"{HEADER}\n{''.join(rows)}"


def skypilot() -> str:
    """Return a small trace as SkyPilot writes it."""
    trace = {
        "metadata": {"gap_seconds": 1800, "region": "us-east-1", "gpu": "V100"},
        "data": [4, 4, 0, 2] * 12,
    }
    return json.dumps(trace)


def history() -> str:
    """Return a small price history as AWS tells it."""
    entry = {
        "AvailabilityZone": "us-east-1a",
        "InstanceType": "p3.2xlarge",
        "ProductDescription": "Linux/UNIX",
    }
    prices = [{**entry, "Timestamp": _time(4 * slot), "SpotPrice": f"{1 + slot / 10}"} for slot in range(6)]
    return json.dumps({"SpotPriceHistory": prices[::-1]}, indent=1)


@cache
def parquet() -> bytes:
    """Return the small market as Parquet."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as files

    out = io.BytesIO()
    files.write_table(csv.read_csv(pa.BufferReader(market().encode())), out)
    return out.getvalue()


def packed() -> bytes:
    """Return the small market as a packed table."""
    return gzip.compress(market().encode(), mtime=0)


@cache
def learned() -> str:
    """Return what was learned after some jobs."""
    from slacktide.policies.selection.document import to_json
    from slacktide.policies.selection.policy_set import AUTO_SET, fresh

    hedge = fresh(AUTO_SET)
    for number in range(5):
        hedge.begin(f"job-{number}", arm=hedge.arms[number])
        if number < 4:
            hedge.end(
                f"job-{number}", [0.5 + 0.01 * (number + place) % 0.4 for place in range(len(hedge.arms))]
            )
    return to_json(hedge)


@cache
def journals() -> dict[str, bytes]:
    """Return journals as earlier runs left them, by name."""
    return {path.name: path.read_bytes() for path in sorted(JOURNALS.glob("*.db"))}


def _time(slot: int) -> str:
    return (BEGIN + timedelta(minutes=30 * slot)).isoformat().replace("+00:00", "Z")
