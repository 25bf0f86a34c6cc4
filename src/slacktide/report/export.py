"""A back-test as data: the documented keys of `-o json`, and one CSV line per run.

The keys are a promise to scripts; docs/reference/json.md explains each.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slacktide.report import words
from slacktide.types import Job

if TYPE_CHECKING:
    from slacktide.market.base import Pool
    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import Run

RUN_KEYS = (
    "policy", "pool", "start_slot", "start_time_utc", "cost_usd", "utility_usd", "finish_hours", "on_time",
    "spot_gpu_hours", "on_demand_gpu_hours", "preemptions", "lost_gpu_hours",
)  # fmt: skip


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the back-test as plain values under documented keys; never NaN, never infinite."""
    pools = {pool.name: pool for pool in comparison.pools}
    return {
        "job": _job(comparison.job),
        "market": _market(comparison),
        "runs": [_run(run, pools[run.pool]) for run in comparison.runs],
        "summary": [_summary(one) for one in comparison.summary],
    }


def csv_text(comparison: Comparison) -> str:
    """Return one line per run under the same keys as the JSON; what is null there is empty here."""
    out = io.StringIO()
    writer = csv.DictWriter(out, RUN_KEYS, lineterminator="\n")
    writer.writeheader()
    for run in comparison.runs:
        row = _run(run, words.pool_of(comparison, run))
        writer.writerow({**row, "on_time": "true" if run.on_time else "false"})
    return out.getvalue()


def _job(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "work_gpu_hours": float(job.work_gpu_hours),
        "deadline_hours": float(job.deadline_hours),
        "widths": [int(width) for width in job.widths],
        "restart_hours": float(job.restart_hours),
        "shrink_hours": _number(job.shrink_hours),
        "checkpoint_hours": float(job.checkpoint_hours),
        "hard": job.hard,
        "value_usd": float(job.value_usd),
        "worthless_after_hours": _number(job.worthless_after_hours),
        "max_cost_usd": _number(job.max_cost_usd),
        "billing": job.billing,
        "speedup": repr(job.speedup),
    }


def _market(comparison: Comparison) -> dict[str, Any]:
    lengths = {float(pool.slot_hours) for pool in comparison.pools}
    return {
        "source": comparison.market,
        "slot_hours": lengths.pop() if len(lengths) == 1 else None,
        "pools": [_pool(pool) for pool in comparison.pools],
        "assumptions": list(comparison.assumptions),
    }


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "slots": len(pool),
        "slot_hours": float(pool.slot_hours),
        "from_utc": _utc(pool.start),
        "to_utc": _utc(pool.end),
    }


def _run(run: Run, pool: Pool) -> dict[str, Any]:
    return {
        "policy": run.policy,
        "pool": run.pool,
        "start_slot": int(run.start_slot),
        "start_time_utc": _utc(pool.time(run.start_slot)),
        "cost_usd": float(run.cost_usd),
        "utility_usd": float(run.utility_usd),
        "finish_hours": _number(run.finish_hours),
        "on_time": bool(run.on_time),
        "spot_gpu_hours": float(run.spot_gpu_hours),
        "on_demand_gpu_hours": float(run.on_demand_gpu_hours),
        "preemptions": int(run.preemptions),
        "lost_gpu_hours": float(run.lost_gpu_hours),
    }


def _summary(one: PolicySummary) -> dict[str, Any]:
    values = dataclasses.asdict(one)
    return {key: value if isinstance(value, str) else _number(value) for key, value in values.items()}


def _number(value: float | None) -> float | None:
    """Return a number JSON can hold; None for what is not given or not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
