"""The bill of a whole journal as text and as JSON: every payer's part, the total, and the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.report import words
from slacktide.report.text.bills.job import agrees, audit_json, audit_text, cents
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid

if TYPE_CHECKING:
    from slacktide.physics import ledger
    from slacktide.results.machines.site_bill import PayerBill, SiteBill

COLUMNS = (
    Column("payer", right=False), Column("status", right=False), Column("spot GPU-hours"),
    Column("on-demand GPU-hours"), Column("spot USD"), Column("on-demand USD"), Column("USD"),
)  # fmt: skip
SITE = "(no job)"  # what machines are put down to that were on their way, idle, or the rest of a node


def text(site: SiteBill) -> str:
    """Return the bill as plain text, a line for each payer, and what the audit found."""
    rows = [_row(_name(one), one.status.replace("_", " "), one.bill) for one in site.payers]
    rows.append(_row("total", "", site.total))
    table = grid.as_text(Grid(COLUMNS, tuple(rows), strong=len(rows) - 1))
    usd = site.total.cost_usd
    sold_once = "; no spot was sold twice" if agrees(site.audit, usd) else ""
    return f"{table}\n\n{audit_text(site.audit, usd)}{sold_once}"


def as_json(site: SiteBill) -> dict[str, Any]:
    """Return the bill under its documented keys."""
    own = [one for one in site.payers if not one.payer]
    return {
        "jobs": [
            {"job": one.payer, "status": one.status, **amounts(one.bill)} for one in site.payers if one.payer
        ],
        "site": amounts(own[0].bill) if own else None,
        "total": amounts(site.total),
        "audit": {**audit_json(site.audit), "oversold": list(site.audit.oversold)},
    }


def _name(one: PayerBill) -> str:
    return words.plain(one.payer, 40) if one.payer else SITE


def _row(name: str, status: str, bill: ledger.StretchSums) -> tuple[str, ...]:
    hours = f"{bill.spot_gpu_hours:,.2f}", f"{bill.on_demand_gpu_hours:,.2f}"
    return (name, status, *hours, cents(bill.spot_usd), cents(bill.on_demand_usd), cents(bill.cost_usd))


def amounts(bill: ledger.StretchSums) -> dict[str, float]:
    """Return what a bill comes to under its documented keys."""
    return {
        "cost_usd": bill.cost_usd,
        "spot_usd": bill.spot_usd,
        "on_demand_usd": bill.on_demand_usd,
        "spot_gpu_hours": bill.spot_gpu_hours,
        "on_demand_gpu_hours": bill.on_demand_gpu_hours,
        "pause_gpu_hours": bill.pause_gpu_hours,
        "idle_gpu_hours": bill.idle_gpu_hours,
    }
