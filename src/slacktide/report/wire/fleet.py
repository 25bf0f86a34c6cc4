"""A simulated fleet for programs: JSON under stable keys, and tables of allocators and jobs as CSV.

What was simulated at one price has other keys than what was simulated on a market: `_stream`, `_month`.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.core.files import write_whole
from slacktide.report.text.sentences.fleet import change_lines, notes
from slacktide.report.text.tables.fleet import QUARTERS, why
from slacktide.report.text.tables.streams import notes as stream_notes
from slacktide.report.wire.values import csv_text, plain, utc
from slacktide.results.fleet import by_class, money_at, outcomes
from slacktide.results.stream import StreamComparison

if TYPE_CHECKING:
    from slacktide.results.fleet import Budgeted, FleetComparison, FleetRow, FleetRun, JobOutcome, Measured
    from slacktide.results.stream import Responses, StreamRow

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
    document = {
        "source": source,
        "jobs_from": month.jobs_from,
        "jobs": len(month.jobs),
        "deadlines": found.deadlines,
        "hours": month.hours,
        "start_utc": utc(month.start),
        "budget_usd": month.allowance.usd,
        "period_hours": month.period_hours,
        "renewed": month.allowance.renewal,
        "market": month.market,
        "market_start_utc": utc(month.market_start),
        "market_again": month.again,
        "slot_hours": month.slot_hours,
        "left_out": month.left_out,
        "promised_gpus": month.promised_gpus or None,
        "brought_gpus": month.brought_gpus,
        "load_ratio": month.load_ratio,
        "common_usd": found.common_usd,
        "common_of": found.common_of or None,
        "policies": [_policy(row) for row in found.rows],
        "money": [{**one._asdict(), "free_usd": one.free_usd} for one in quarters],
        "other_budgets": [_budgeted(one) for one in (found.less, found.more) if one is not None],
        "changes": change_lines(found),
        "classes": [one._asdict() for one in by_class(all_jobs)],
        "over_time": over_time(found.story),
        "job_rows": [job_row(one) for one in all_jobs],
        "notes": notes(found),
    }
    done: dict[str, Any] = plain(document)
    return done


def jobs_csv(found: FleetComparison) -> str:
    """Return one line for each job under the first allocator."""
    return csv_text(plain(job_row(one)) for one in outcomes(found.month, found.story))


def write_jobs(found: FleetComparison, path: str | os.PathLike[str]) -> None:
    """Write the table of jobs into a file; raises FileError when it cannot be written."""
    write_whole(path, jobs_csv(found).encode())


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


def _budgeted(one: Budgeted) -> dict[str, Any]:
    return {"budget_usd": one.budget_usd, **_measured(one.measured)}


def over_time(run: FleetRun) -> dict[str, list[Any]]:
    """Return where the fleet stood over time, a few times a day, as columns."""
    hours = run.moments.hours
    step = max(1, round(EVERY_HOURS / float(hours[1] - hours[0]))) if len(hours) > 1 else 1
    places = np.arange(0, len(hours), step)
    return {name: column[places].tolist() for name, column in run.moments._asdict().items()}


def job_row(one: JobOutcome) -> dict[str, Any]:
    """Return one job as a row."""
    row = one._asdict()
    return {
        "job": row.pop("name"),
        "class": row.pop("kind"),
        **{
            name: row[name]
            for name in ("owner", "outcome", "submitted_hours", "deadline_hours", "finish_hours")
        },
        "response_hours": one.response_hours,
        **{
            name: row[name]
            for name in ("work_gpu_hours", "cost_usd", "spot_gpu_hours", "on_demand_gpu_hours")
        },
        **{name: row[name] for name in ("starts", "losses", "value_usd")},
        "why": why(one),
    }


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
        "node_gpus": fleet.node_gpus,
        "provisioning_hours": fleet.provisioning_hours,
        "idle_grace_hours": fleet.idle_grace_hours,
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
