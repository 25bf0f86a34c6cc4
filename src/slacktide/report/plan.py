"""A plan as a page of text and as JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from slacktide.units import format_duration

if TYPE_CHECKING:
    from rich.table import Table

    from slacktide.service import JobPlan, Outlook, Range


def page(plan: JobPlan) -> list[Any]:
    """Return the plan as things to print: what will happen, the policies side by side, the assumptions."""
    return [
        f"[bold]{_escape(plan.job.name)}[/bold]: {_verdict(plan)}",
        "",
        _table(plan),
        "",
        *_footnotes(plan),
    ]


def as_json(plan: JobPlan) -> dict[str, Any]:
    """Return the plan under its documented keys."""
    return {
        "job": plan.job.name,
        "market": plan.market,
        "policy": plan.policy,
        "starts": plan.starts,
        "outlooks": [_finite(dataclasses.asdict(outlook)) for outlook in plan.outlooks],
        "assumptions": list(plan.assumptions),
    }


def _verdict(plan: JobPlan) -> str:
    chosen = plan.outlooks[0]
    cost, finish = chosen.cost_usd, chosen.finish_hours
    return (
        f"{_escape(chosen.policy)} will probably cost {_usd(cost.p50)} ({_usd(cost.p10)} to {_usd(cost.p90)})"
        f" and be done after {_hours(finish.p50)} ({_hours(finish.p10)} to {_hours(finish.p90)}) of "
        f"{format_duration(plan.job.deadline_hours)}; in time from {chosen.on_time_share:.0%} of "
        f"{plan.starts} recent starts."
    )


def _table(plan: JobPlan) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in (
        "policy",
        "cost p10",
        "p50",
        "p90 USD",
        "done p10",
        "p50",
        "p90",
        "in time",
        "spot",
        "on demand GPU-h",
    ):
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for outlook in plan.outlooks:
        table.add_row(*_row(outlook, chosen=outlook.policy == plan.policy))
    return table


def _row(outlook: Outlook, *, chosen: bool) -> list[str]:
    name = _escape(outlook.policy)
    return [
        f"[bold]{name} <[/bold]" if chosen else name,
        *(f"{value:.2f}" for value in _three(outlook.cost_usd)),
        *(_hours(value) for value in _three(outlook.finish_hours)),
        f"{outlook.on_time_share:.0%}",
        f"{outlook.mean_spot_gpu_hours:.1f}",
        f"{outlook.mean_on_demand_gpu_hours:.1f}",
    ]


def _footnotes(plan: JobPlan) -> list[str]:
    return [
        "clairvoyant: what one who knows the future would have paid; nobody can do better.",
        "This assumes that",
        *(f"  - {_escape(sentence)}" for sentence in plan.assumptions),
        f"  - market: {_escape(plan.market)}",
    ]


def _three(values: Range) -> tuple[float, float, float]:
    return values.p10, values.p50, values.p90


def _usd(value: float) -> str:
    return f"{value:.2f} USD"


def _hours(value: float) -> str:
    return format_duration(value) if math.isfinite(value) else "never"


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _finite(document: Any) -> Any:
    """Replace what JSON cannot say: a time that never comes becomes null."""
    if isinstance(document, dict):
        return {key: _finite(value) for key, value in document.items()}
    if isinstance(document, float) and not math.isfinite(document):
        return None
    return document
