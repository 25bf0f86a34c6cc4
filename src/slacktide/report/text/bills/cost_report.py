"""What `slacktide cost` prints: the bill of a job, of a whole journal, or of its parts, with the audit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.report import words
from slacktide.report.text.bills import job, machines
from slacktide.report.text.bills.job import cents
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import TableOf
from slacktide.report.wire.values import csv_text, picked
from slacktide.results.bill import PayerBill

if TYPE_CHECKING:
    from slacktide.results.bill import BillPart, JobCost, SiteBill, SiteCost

AMOUNTS = (
    "cost_usd", "spot_usd", "on_demand_usd", "spot_gpu_hours", "on_demand_gpu_hours", "pause_gpu_hours",
    "idle_gpu_hours",
)  # fmt: skip
SITE = "(no job)"  # the payer of machines that were starting up, idle, or left over on a node
UNNAMED = "(none)"  # what is shown for a part without an owner, a class or a job


class CostReport(NamedTuple):
    """A bill with its audit, ready to be shown."""

    document: dict[str, Any]  # under its documented keys
    text: str
    notes: tuple[str, ...]  # what users should know about the markets that it is based on
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
    table = TableOf([*site.payers, PayerBill("total", "", site.total)])
    table.words("payer", lambda row: words.plain(row.payer, 40) if row.payer else SITE)
    table.words("status", lambda row: row.status.replace("_", " "))
    table.number("spot GPU-hours", lambda row: f"{row.bill.spot_gpu_hours:,.2f}")
    table.number("on-demand GPU-hours", lambda row: f"{row.bill.on_demand_gpu_hours:,.2f}")
    table.number("spot USD", lambda row: cents(row.bill.spot_usd))
    table.number("on-demand USD", lambda row: cents(row.bill.on_demand_usd))
    table.number("USD", lambda row: cents(row.bill.cost_usd))
    usd = site.total.cost_usd
    sold_once = "; no spot was sold twice" if job.agrees(site.audit, usd) else ""
    return f"{grid.as_text(table.grid())}\n\n{job.audit_text(site.audit, usd)}{sold_once}"


def _site_json(site: SiteBill) -> dict[str, Any]:
    own = [one for one in site.payers if not one.payer]
    jobs = (one for one in site.payers if one.payer)
    return {
        "jobs": [{"job": one.payer, "status": one.status, **picked(one.bill, *AMOUNTS)} for one in jobs],
        "site": picked(own[0].bill, *AMOUNTS) if own else None,
        "total": picked(site.total, *AMOUNTS),
        "audit": {**job.audit_json(site.audit), "oversold": list(site.audit.oversold)},
    }


def parts_json(parts: Sequence[BillPart], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return the parts of a bill under their documented keys."""
    return [{**dict(zip(by, one.names, strict=True)), **picked(one.bill, *AMOUNTS)} for one in parts]


def parts_csv(parts: Sequence[BillPart], by: Sequence[str]) -> str:
    """Return a line for each part, below the names of the columns; amounts are not rounded."""
    return csv_text(parts_json(parts, by)) if parts else ",".join([*by, *AMOUNTS]) + "\n"


def parts_text(parts: Sequence[BillPart], by: Sequence[str], cost_usd: float) -> str:
    """Return the parts as plain text, a line each, and the whole."""
    table = TableOf(parts)
    for place, key in enumerate(by):
        table.words(key, partial(_part_name, place))
    table.number("GPU-hours", lambda part: f"{part.bill.gpu_hours:,.2f}")
    table.number("USD", lambda part: cents(part.bill.cost_usd))
    hours = sum(part.bill.gpu_hours for part in parts)
    table.last_row("total", *[""] * (len(by) - 1), f"{hours:,.2f}", cents(cost_usd))
    return grid.as_text(table.grid())


def _part_name(place: int, part: BillPart) -> str:
    return words.plain(part.names[place], 40) or UNNAMED
