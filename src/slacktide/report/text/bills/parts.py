"""A bill in parts as a table, JSON and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slacktide.report import words
from slacktide.report.text.bills.job import cents
from slacktide.report.text.bills.site import amounts
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire.values import csv_text

if TYPE_CHECKING:
    from slacktide.results.machines.bill_parts import BillPart

AMOUNTS = (
    "cost_usd", "spot_usd", "on_demand_usd", "spot_gpu_hours", "on_demand_gpu_hours", "pause_gpu_hours",
    "idle_gpu_hours",
)  # fmt: skip
UNNAMED = "(none)"  # what is shown for a part without an owner, a class or a job


def as_json(parts: Sequence[BillPart], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return the parts under their documented keys."""
    return [{**dict(zip(by, one.names, strict=True)), **amounts(one.bill)} for one in parts]


def as_csv(parts: Sequence[BillPart], by: Sequence[str]) -> str:
    """Return a line for each part, below the names of the columns; amounts are not rounded."""
    header = ",".join([*by, *AMOUNTS]) + "\n"
    return csv_text(as_json(parts, by)) if parts else header


def text(parts: Sequence[BillPart], by: Sequence[str], cost_usd: float) -> str:
    """Return the parts as plain text, a line each, and the whole."""
    columns = (*(Column(key, right=False) for key in by), Column("GPU-hours"), Column("USD"))
    rows = [
        (
            *(words.plain(name, 40) or UNNAMED for name in one.names),
            f"{one.bill.gpu_hours:,.2f}",
            cents(one.bill.cost_usd),
        )
        for one in parts
    ]
    hours = sum(one.bill.gpu_hours for one in parts)
    rows.append(("total", *[""] * (len(by) - 1), f"{hours:,.2f}", cents(cost_usd)))
    return grid.as_text(Grid(columns, tuple(rows), strong=len(rows) - 1))
