"""The JSON of a plan, in one pool or over pools, under its documented keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slacktide.report.text.sentences.plan import advice_words
from slacktide.report.wire import values
from slacktide.report.wire.values import picked

if TYPE_CHECKING:
    from slacktide.results.plan import CurvePoint, JobPlan, Moving

MOVING = ("pool", "mean_moves", "mean_move_usd")  # keys that an outlook has only where a job may move


def as_json(plan: JobPlan) -> dict[str, Any]:
    """Return the plan under its documented keys; those that not all plans have come last."""
    shown = "policy", "futures", *(MOVING if plan.moving else ("history",))
    document: dict[str, Any] = {
        "job": plan.job.name,
        "deadline_hours": plan.job.deadline_hours,
        **picked(plan, "market", "pool", "policy"),
        "first_decision": {
            "spot_gpus": plan.first_gpus[0],
            "on_demand_gpus": plan.first_gpus[1],
            "reason": str(plan.first.reason),
        },
        "outlooks": [picked(one, *shown) for one in plan.outlooks],
        "gpus_over_time": plan.gpus,
        "pools": [{"name": one.pool, "history_p50_cost_usd": one.history_p50_cost_usd} for one in plan.pools],
        "assumptions": plan.assumptions,
        "begin": {
            "slot": plan.begin_slot,
            "utc": None if plan.begin_utc is None else plan.begin_utc.isoformat(),
        },
        "cost_by_deadline": _points(plan.by_deadline, "deadline_hours"),
        "cost_by_width": _points(plan.by_width, "max_gpus"),
    }
    if plan.moving is not None:
        _add_moving(document, plan, plan.moving)
    if plan.clairvoyant_spare_usd is not None:
        document["clairvoyant_spare_usd"] = plan.clairvoyant_spare_usd
    if plan.wrong_work is not None:
        document["wrong_work"] = plan.wrong_work
    if plan.last_runs is not None:
        document["last_runs"] = plan.last_runs
    if plan.checkpoints is not None:
        document["checkpoints"] = {**dataclasses.asdict(plan.checkpoints), "advice": advice_words(plan)}
    return values.document(document)


def _add_moving(document: dict[str, Any], plan: JobPlan, moving: Moving) -> None:
    document["first_decision"]["tries"] = plan.first.wishes
    figures = "spot_gpus", "spot_usd", "stay_usd", "held_share"
    document["pools"] = [{"name": one.pool, **picked(one, *figures)} for one in moving.pools]
    document["saving"] = moving.saving
    document["held_over_time"] = {"slot_hours": moving.slot_hours, "pools": dict(moving.held)}


def _points(points: Sequence[CurvePoint], name: str) -> list[dict[str, float]]:
    figures = "mean_cost_usd", "p10_cost_usd", "p90_cost_usd", "more_usd", "more_error_usd"
    return [{name: point.at, **picked(point, *figures)} for point in points]
