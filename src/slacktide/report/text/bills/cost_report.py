"""What `slacktide cost` prints: the bill of a job, of a whole journal, or of its parts, with the audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.report import words
from slacktide.report.text.bills import job, machines
from slacktide.report.text.bills.job import cents
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid, left, right
from slacktide.report.wire.values import csv_text, picked

if TYPE_CHECKING:
    from slacktide.physics import ledger
    from slacktide.results.bill import BillPart, JobCost, SiteBill, SiteCost

COLUMNS = (
    *left("payer", "status"),
    *right("spot GPU-hours", "on-demand GPU-hours", "spot USD", "on-demand USD", "USD"),
)  # fmt: skip
AMOUNTS = (
    "cost_usd", "spot_usd", "on_demand_usd", "spot_gpu_hours", "on_demand_gpu_hours", "pause_gpu_hours",
    "idle_gpu_hours",
)  # fmt: skip
SITE = "(no job)"  # what machines are put down to that were on their way, idle, or the rest of a node
UNNAMED = "(none)"  # what is shown for a part without an owner, a class or a job


class CostReport(NamedTuple):
    """A bill with its audit, ready to be shown."""

    document: dict[str, Any]  # under its documented keys
    text: str
    notes: tuple[str, ...]  # what users should know of the markets that it rests on
    clean: bool  # whether the audit found nothing wrong


def job_cost_report(cost: JobCost) -> CostReport:
    """Format the bill of a job."""
    bill, audit, notes = cost
    document = {**job.as_json(bill), "audit": job.audit_json(audit)}
    text = f"{job.text(bill)}\n\n{job.audit_text(audit, bill.cost_usd)}"
    return CostReport(document, text, notes, audit.clean)


def site_cost_report(cost: SiteCost) -> CostReport:
    """Format the bill of a whole journal, with that of rented machines if there were any."""
    found, notes, rented = cost
    text, document = _site_text(found), {**_site_json(found), "machines": None}
    if rented is not None:
        text += f"\n\n{machines.text(rented, found.total.cost_usd)}"
        document["machines"] = machines.as_json(rented)
    return CostReport(document, text, notes, found.audit.clean)


def _site_text(site: SiteBill) -> str:
    """Return a line for each payer, the total, and what the audit found."""
    rows = [
        _row(words.plain(one.payer, 40) if one.payer else SITE, one.status.replace("_", " "), one.bill)
        for one in site.payers
    ]
    rows.append(_row("total", "", site.total))
    table = grid.as_text(Grid(COLUMNS, tuple(rows), strong=len(rows) - 1))
    usd = site.total.cost_usd
    sold_once = "; no spot was sold twice" if job.agrees(site.audit, usd) else ""
    return f"{table}\n\n{job.audit_text(site.audit, usd)}{sold_once}"


def _site_json(site: SiteBill) -> dict[str, Any]:
    own = [one for one in site.payers if not one.payer]
    jobs = (one for one in site.payers if one.payer)
    return {
        "jobs": [{"job": one.payer, "status": one.status, **_amounts(one.bill)} for one in jobs],
        "site": _amounts(own[0].bill) if own else None,
        "total": _amounts(site.total),
        "audit": {**job.audit_json(site.audit), "oversold": list(site.audit.oversold)},
    }


def _row(name: str, status: str, bill: ledger.StretchSums) -> tuple[str, ...]:
    hours = f"{bill.spot_gpu_hours:,.2f}", f"{bill.on_demand_gpu_hours:,.2f}"
    return (name, status, *hours, cents(bill.spot_usd), cents(bill.on_demand_usd), cents(bill.cost_usd))


def _amounts(bill: ledger.StretchSums) -> dict[str, float]:
    return picked(bill, *AMOUNTS)


def parts_json(parts: Sequence[BillPart], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return the parts of a bill under their documented keys."""
    return [{**dict(zip(by, one.names, strict=True)), **_amounts(one.bill)} for one in parts]


def parts_csv(parts: Sequence[BillPart], by: Sequence[str]) -> str:
    """Return a line for each part, below the names of the columns; amounts are not rounded."""
    return csv_text(parts_json(parts, by)) if parts else ",".join([*by, *AMOUNTS]) + "\n"


def parts_text(parts: Sequence[BillPart], by: Sequence[str], cost_usd: float) -> str:
    """Return the parts as plain text, a line each, and the whole."""
    columns = (*(Column(key, right=False) for key in by), Column("GPU-hours"), Column("USD"))
    rows: list[tuple[str, ...]] = []
    for one in parts:
        names = (words.plain(name, 40) or UNNAMED for name in one.names)
        rows.append((*names, f"{one.bill.gpu_hours:,.2f}", cents(one.bill.cost_usd)))
    hours = sum(one.bill.gpu_hours for one in parts)
    rows.append(("total", *[""] * (len(by) - 1), f"{hours:,.2f}", cents(cost_usd)))
    return grid.as_text(Grid(columns, tuple(rows), strong=len(rows) - 1))
