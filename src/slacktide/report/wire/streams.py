"""A comparison of allocators for programs: JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from slacktide.report.text.tables.fleets.streams import Simulated, notes

if TYPE_CHECKING:
    from slacktide.results.fleets.stream import Responses, StreamComparison, StreamRow


def as_json(found: StreamComparison, asked: Simulated) -> dict[str, Any]:
    """Return the whole comparison under stable keys."""
    fleet = found.fleet
    return {
        "source": asked.source,
        "stream": asked.stream,
        "jobs": len(found.stream),
        "hours": found.stream.hours,
        "budget_gpus": fleet.budget_gpus,
        "usd_per_gpu_hour": asked.usd_per_gpu_hour,
        "node_gpus": fleet.node_gpus,
        "provisioning_hours": fleet.provisioning_hours,
        "idle_grace_hours": fleet.idle_grace_hours,
        "policies": [{**_flat(row, asked), "classes": _classes(row, found)} for row in found.rows],
        "notes": notes(found),
    }


def csv_text(found: StreamComparison, asked: Simulated) -> str:
    """Return one line for each policy."""
    rows = [_flat(row, asked) for row in found.rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if value is None else value for key, value in row.items()})
    return text.getvalue()


def _flat(row: StreamRow, asked: Simulated) -> dict[str, Any]:
    run, bill, best, usd = row.run, row.run.bill, row.optimum, asked.usd_per_gpu_hour
    return {
        "policy": row.policy,
        **_responses(run.responses),
        "average_gpus": run.average_gpus,
        "usd_per_hour": None if usd is None else run.average_gpus * usd,
        "peak_gpus": run.peak_gpus,
        "resizes": run.resizes,
        "gpu_hours": bill.gpu_hours,
        "busy_gpu_hours": bill.busy_gpu_hours,
        "restart_gpu_hours": bill.restart_gpu_hours,
        "fragmentation_gpu_hours": bill.fragmentation_gpu_hours,
        "idle_gpu_hours": bill.idle_gpu_hours,
        "optimum_average_gpus": best.average_gpus if best else None,
        "optimum_mean_response_hours": best.mean_response_hours if best else None,
        "over_optimum": row.ratio,
    }


def _classes(row: StreamRow, found: StreamComparison) -> list[dict[str, Any]]:
    return [
        {"name": one.name, **_responses(row.run.responses_of(index))}
        for index, one in enumerate(found.fleet.classes)
    ]


def _responses(found: Responses) -> dict[str, Any]:
    return {
        "jobs": found.jobs,
        "mean_response_hours": _finite(found.mean_hours),
        "p50_response_hours": _finite(found.p50_hours),
        "p95_response_hours": _finite(found.p95_hours),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
