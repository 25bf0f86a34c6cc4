"""The JSON of a plan, in one pool or over pools, under its documented keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slacktide.report.text.tables.plan import advice_words
from slacktide.report.wire import values

if TYPE_CHECKING:
    from slacktide.results.plan import CurvePoint, JobPlan, LastRuns, Moving


def as_json(plan: JobPlan) -> dict[str, Any]:
    """Return the plan under its documented keys; those of one kind of plan alone come last."""
    document: dict[str, Any] = {
        "job": plan.job.name,
        "deadline_hours": plan.job.deadline_hours,
        "market": plan.market,
        "pool": plan.pool,
        "policy": plan.policy,
        "first_decision": {
            "spot_gpus": plan.first_gpus[0],
            "on_demand_gpus": plan.first_gpus[1],
            "reason": str(plan.first.reason),
        },
        "outlooks": [{"policy": one.policy, "futures": one.futures} for one in plan.outlooks],
        "gpus_over_time": plan.gpus,
        "pools": [{"name": one.pool, "history_p50_cost_usd": one.history_p50_cost_usd} for one in plan.pools],
        "assumptions": list(plan.assumptions),
        "begin": {
            "slot": plan.begin_slot,
            "utc": None if plan.begin_utc is None else plan.begin_utc.isoformat(),
        },
        "cost_by_deadline": _points(plan.by_deadline, "deadline_hours"),
        "cost_by_width": _points(plan.by_width, "max_gpus"),
    }
    if plan.moving is None:
        _add_staying(document, plan)
    else:
        _add_moving(document, plan, plan.moving)
    if plan.clairvoyant_spare_usd is not None:
        document["clairvoyant_spare_usd"] = plan.clairvoyant_spare_usd
    if plan.wrong_work is not None:
        document["wrong_work"] = plan.wrong_work
    if plan.last_runs is not None:
        document["last_runs"] = _last_runs(plan.last_runs)
    if plan.checkpoints is not None:
        document["checkpoints"] = {**dataclasses.asdict(plan.checkpoints), "advice": advice_words(plan)}
    plain: dict[str, Any] = values.plain(document)
    return plain


def _add_staying(document: dict[str, Any], plan: JobPlan) -> None:
    """Add what is said only of a job in one pool."""
    for row, outlook in zip(document["outlooks"], plan.outlooks, strict=True):
        row["history"] = outlook.history


def _add_moving(document: dict[str, Any], plan: JobPlan, moving: Moving) -> None:
    """Add what is said only of a job that may move."""
    document["first_decision"]["tries"] = list(plan.first.wishes)
    for row, outlook in zip(document["outlooks"], plan.outlooks, strict=True):
        row |= {name: getattr(outlook, name) for name in ("pool", "mean_moves", "mean_move_usd")}
    figures = ("spot_gpus", "spot_usd", "stay_usd", "held_share")
    document["pools"] = [
        {"name": one.pool, **{name: getattr(one, name) for name in figures}} for one in moving.pools
    ]
    document["saving"] = moving.saving
    document["held_over_time"] = {"slot_hours": moving.slot_hours, "pools": dict(moving.held)}


def _last_runs(found: LastRuns) -> dict[str, Any]:
    last = {**dataclasses.asdict(found.last), "ended_utc": values.utc(found.last.ended_utc)}
    return {"runs": found.runs, "mean_work_gpu_hours": found.mean_work_gpu_hours, "last": last}


def _points(points: Sequence[CurvePoint], name: str) -> list[dict[str, float]]:
    return [
        {
            name: point.at,
            "mean_cost_usd": point.mean_cost_usd,
            "p10_cost_usd": point.p10_cost_usd,
            "p90_cost_usd": point.p90_cost_usd,
            "more_usd": point.more_usd,
            "more_error_usd": point.more_error_usd,
        }
        for point in points
    ]
