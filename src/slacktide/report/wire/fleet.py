"""A simulated fleet for programs: JSON under stable keys, and tables of allocators and jobs as CSV.

A simulation at one price (`_stream`) has other keys than one on a market (`_month`).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.report.text.tables.fleet import QUARTERS, change_lines, notes, why
from slacktide.report.text.tables.streams import notes as stream_notes
from slacktide.report.wire.values import csv_text, document, picked, plain
from slacktide.results.fleet import by_class, money_at, outcomes
from slacktide.results.stream import StreamComparison

if TYPE_CHECKING:
    from slacktide.results.fleet import FleetComparison, FleetRow, FleetRun, JobOutcome, Measured
    from slacktide.results.stream import Responses, StreamRow

JOB_KEYS = (
    "owner", "outcome", "submitted_hours", "deadline_hours", "finish_hours", "response_hours",
    "work_gpu_hours", "cost_usd", "spot_gpu_hours", "on_demand_gpu_hours", "starts", "losses", "value_usd",
)  # fmt: skip
EVERY_HOURS = 6.0  # how far apart the moments of `over_time` are at least


def as_json(found: StreamComparison | FleetComparison, source: str) -> dict[str, Any]:
    """Return the whole comparison under stable keys."""
    return _stream(found, source) if isinstance(found, StreamComparison) else _month(found, source)


def policies_csv(found: StreamComparison | FleetComparison) -> str:
    """Return one line for each allocator."""
    if isinstance(found, StreamComparison):
        return csv_text(_flat(row, found.usd_per_gpu_hour) for row in found.rows)
    return csv_text(plain({**_policy(row), "settings": "; ".join(row.settings)}) for row in found.rows)


# ------------------------------------------------------------------- on a market


def _month(found: FleetComparison, source: str) -> dict[str, Any]:
    month, all_jobs = found.month, outcomes(found.month, found.story)
    quarters = [money_at(month, found.story, share) for share in QUARTERS]
    fields = {
        "source": source,
        "jobs_from": month.jobs_from,
        "jobs": len(month.jobs),
        "deadlines": found.deadlines,
        "hours": month.hours,
        "start_utc": month.start,
        "budget_usd": month.allowance.usd,
        "period_hours": month.period_hours,
        "renewed": month.allowance.renewal,
        "market": month.market,
        "market_start_utc": month.market_start,
        "market_again": month.again,
        "slot_hours": month.slot_hours,
        "left_out": month.left_out,
        "promised_gpus": month.promised_gpus or None,
        **picked(month, "brought_gpus", "load_ratio"),
        "common_usd": found.common_usd,
        "common_of": found.common_of or None,
        "policies": [_policy(row) for row in found.rows],
        "money": [{**one._asdict(), "free_usd": one.free_usd} for one in quarters],
        "other_budgets": [
            {"budget_usd": other.budget_usd, **_measured(other.measured)}
            for other in (found.less, found.more)
            if other is not None
        ],
        "changes": change_lines(found),
        "classes": by_class(all_jobs),
        "over_time": over_time(found.story),
        "job_rows": [job_row(one) for one in all_jobs],
        "notes": notes(found),
    }
    return document(fields)


def jobs_csv(found: FleetComparison) -> str:
    """Return one line for each job under the first allocator."""
    return csv_text(plain(job_row(one)) for one in outcomes(found.month, found.story))


def _policy(row: FleetRow) -> dict[str, Any]:
    return {
        "policy": row.policy,
        **_measured(row.measured),
        "over_bound": row.over_bound,
        "settings_tried": row.tried,
        "settings": list(row.settings),
    }


def _measured(one: Measured) -> dict[str, Any]:
    return {
        "mean_response_hours": one.mean_hours,
        "p95_response_hours": one.p95_hours,
        "deadlines_met": one.met,
        "hard_deadlines_missed": one.late,
        "refused": one.refused,
        "undone": one.unfinished,
        "spent_usd": one.spent_usd,
        "on_demand_share": one.on_demand_share,
    }


def over_time(run: FleetRun) -> dict[str, list[Any]]:
    """Return where the fleet stood over time, a few times a day, as columns."""
    hours = run.moments.hours
    step = max(1, round(EVERY_HOURS / float(hours[1] - hours[0]))) if len(hours) > 1 else 1
    places = np.arange(0, len(hours), step)
    return {name: column[places].tolist() for name, column in run.moments._asdict().items()}


def job_row(one: JobOutcome) -> dict[str, Any]:
    """Return one job as a row."""
    return {"job": one.name, "class": one.kind, **picked(one, *JOB_KEYS), "why": why(one)}


# ------------------------------------------------------------------- at one price


def _stream(found: StreamComparison, source: str) -> dict[str, Any]:
    fleet = found.fleet
    return {
        "source": source,
        "stream": found.jobs_from,
        "jobs": len(found.stream),
        "hours": found.stream.hours,
        "budget_gpus": fleet.budget_gpus,
        "usd_per_gpu_hour": found.usd_per_gpu_hour,
        **picked(fleet, "node_gpus", "provisioning_hours", "idle_grace_hours"),
        "policies": [
            {**_flat(row, found.usd_per_gpu_hour), "classes": _classes(row, found)} for row in found.rows
        ],
        "notes": stream_notes(found),
    }


def _flat(row: StreamRow, usd: float | None) -> dict[str, Any]:
    run, bill, best = row.run, row.run.bill, row.optimum
    return {
        "policy": row.policy,
        **_responses(run.responses),
        "average_gpus": run.average_gpus,
        "usd_per_hour": None if usd is None else run.average_gpus * usd,
        **picked(run, "peak_gpus", "resizes"),
        **asdict(bill),
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
        "mean_response_hours": plain(found.mean_hours),
        "p50_response_hours": plain(found.p50_hours),
        "p95_response_hours": plain(found.p95_hours),
    }
