"""The answer to a budget as data; docs/reference/json.md explains each key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from slacktide.core.units import HOURS_PER_MONTH
from slacktide.report.text.tables import budget as say
from slacktide.report.wire.values import csv_text as as_csv
from slacktide.report.wire.values import picked

if TYPE_CHECKING:
    from slacktide.budget.classes import JobClass
    from slacktide.budget.width_plan import WidthPlan
    from slacktide.budget.widths import ClassPlan, FleetPlan, WidthShare
    from slacktide.report.text.tables.budget import RequestedBudget

MEANS = ("mean_response_hours", "average_gpus")


def as_json(answer: WidthPlan, requested: RequestedBudget, *, frontier: bool) -> dict[str, Any]:
    """Return the answer as plain values under documented keys; money is None where no price is known."""
    plan, one = answer.plan, answer.one_width
    document = {
        **requested._asdict(),
        **picked(plan, "budget_gpus", "shadow_price_hours_per_gpu", *MEANS),
        **picked(answer, "least_budget_gpus", "useful_budget_gpus", "usd_per_gpu_hour"),
        "budget_usd_per_hour": _usd(answer, plan.budget_gpus),
        "average_usd_per_hour": _usd(answer, plan.average_gpus),
        "least_budget_usd_per_hour": _usd(answer, answer.least_budget_gpus),
        "hours_per_month": HOURS_PER_MONTH,
        "classes": [_class(answer, *pair) for pair in zip(plan.job_classes, plan.classes, strict=True)],
        "one_width": one
        and {"widths": _shares(one.widths), **picked(one, "mean_response_hours", "average_gpus")},
        "steps": [
            {**step._asdict(), "budget_usd_per_hour": _usd(answer, step.budget_gpus)}
            for step in answer.steps()
        ],
        "notes": say.notes(answer),
    }
    return {**document, "frontier": [_row(answer, row) for row in answer.rows()]} if frontier else document


def csv_text(answer: WidthPlan, *, frontier: bool) -> str:
    """Return one line for each class, or each row of the frontier; money is empty where no price is known."""
    if not frontier:
        plan = answer.plan
        return as_csv(_class_line(answer, *pair) for pair in zip(plan.job_classes, plan.classes, strict=True))
    return as_csv(
        {
            **{key: value for key, value in _row(answer, row).items() if key != "classes"},
            **{found.name: say.ways(found) for found in row.classes},
        }
        for row in answer.rows()
    )


def _class(answer: WidthPlan, one: JobClass, found: ClassPlan) -> dict[str, Any]:
    return {
        **_plan(found),
        **picked(one, "arrivals_per_hour", "work_gpu_hours"),
        "spend_share": found.average_gpus / answer.plan.average_gpus,
    }


def _plan(found: ClassPlan) -> dict[str, Any]:
    return {
        "name": found.name,
        "phases": [{"widths": _shares(shares)} for shares in found.phases],
        "paths": [{"widths": list(path.widths), "share": path.share} for path in found.paths],
        **picked(found, "response_hours", "average_gpus"),
    }


def _shares(shares: Iterable[WidthShare]) -> list[dict[str, float]]:
    return [one._asdict() for one in shares]


def _row(answer: WidthPlan, plan: FleetPlan) -> dict[str, Any]:
    return {
        "budget_gpus": plan.budget_gpus,
        "budget_usd_per_hour": _usd(answer, plan.budget_gpus),
        **picked(plan, "mean_response_hours", "shadow_price_hours_per_gpu"),
        "classes": [_plan(found) for found in plan.classes],
    }


def _class_line(answer: WidthPlan, one: JobClass, found: ClassPlan) -> dict[str, Any]:
    return {
        **picked(one, "name", "arrivals_per_hour", "work_gpu_hours"),
        "widths": say.ways(found),
        **picked(found, "response_hours", "average_gpus"),
        "spend_share": found.average_gpus / answer.plan.average_gpus,
        "usd_per_hour": _usd(answer, found.average_gpus),
    }


def _usd(answer: WidthPlan, gpus: float) -> float | None:
    return None if answer.usd_per_gpu_hour is None else gpus * answer.usd_per_gpu_hour
